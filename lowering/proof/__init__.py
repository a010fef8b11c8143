"""Proofs that a pass keeps what a gather means, for all sizes: integer sets for loops, bit-vectors for indices."""
