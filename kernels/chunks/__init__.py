"""Arrays that are read chunk by chunk: those of dask, gathered lazily."""
