"""Other people's data: PyTorch, models, arrays of other libraries by protocol, dask, and files of h5py and zarr."""
