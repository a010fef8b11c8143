"""The process and its machine: settings, CPU and caches, packages, files, clock."""
