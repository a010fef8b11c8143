"""Passes from a scheduled nest to loops of `scf` and `memref`."""
