"""Proofs that passes are right, for all sizes and all values of indices: sets by islpy, bit-vectors by z3."""
