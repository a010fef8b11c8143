"""Machine code of our own, without Numba: the fast call of a kernel, and the thread team that runs its tiles."""
