"""Passes on operators: attributes normalised, element type erased, dimensions collapsed."""
