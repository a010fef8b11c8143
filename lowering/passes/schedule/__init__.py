"""Passes of a schedule: tile, interchange, parallelize, vectorize, unroll, prefetch, non-temporal stores."""
