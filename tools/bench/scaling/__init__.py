"""One thread against several: gathers and loops without memory, measured here or predicted for a larger machine."""
