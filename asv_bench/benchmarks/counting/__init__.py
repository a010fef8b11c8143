"""Exact counts of the package, each in a fresh process: `../counts.py` hands them to asv."""
