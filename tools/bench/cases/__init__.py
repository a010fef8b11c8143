"""The cases of the suite: gathers of every kind by shape, dtype and distribution, their arrays and kernels."""
