"""Machine code of our own, without Numba: the fast call, which finds a cached call, and the thread team."""
