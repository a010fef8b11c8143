"""The Numba backend: loops-level IR to Python source, and that to machine code."""
