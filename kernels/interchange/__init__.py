"""Arrays of other libraries as ndarrays on the same memory, without importing those libraries."""
