"""Benchmarks that asv tracks over commits; `benchmarks/cases.py` has the cases of every measurement."""
