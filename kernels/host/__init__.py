"""This process and its machine: settings, CPU and caches, packages, clock."""
