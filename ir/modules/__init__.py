"""Modules as a whole: their context and plugins, how they are built, parsed, verified and printed; known values."""
