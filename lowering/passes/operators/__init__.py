"""Passes on modules of gather operators, before each gather is lowered by itself."""
