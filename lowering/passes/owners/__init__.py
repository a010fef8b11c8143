"""Passes over the adding nest of a gradient, whose owners each have a part of an axis: see `owner-computes`."""
