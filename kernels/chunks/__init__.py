"""Arrays that are read chunk by chunk: those of dask lazily, those of h5py and zarr by the rows that are needed."""
