"""How callers name the problem that a kernel is of."""
