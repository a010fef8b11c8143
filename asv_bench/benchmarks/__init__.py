"""Benchmarks, one module a subject. asv wants this file; the folder above has none."""
