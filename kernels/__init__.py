"""What runs: compiled kernels, their cache on disk, threads, and the functions that people call."""
