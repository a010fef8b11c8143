"""Kernels as C functions: an address in this process, and shared libraries for a named CPU."""
