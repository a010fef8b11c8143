"""The Numba backend: from loops to Python source, and from that to machine code."""
