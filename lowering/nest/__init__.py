"""Queries and builders of loop nests, which the passes share."""
