"""Passes of a schedule: tile, interchange, parallelize, stage indices, vectorize, unroll, prefetch, stream."""
