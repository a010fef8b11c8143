"""What runs: the public functions, compiled kernels, models, dask arrays, tuning and warming."""
