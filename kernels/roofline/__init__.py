"""How fast a gather could be: bytes, cache lines, peak rates, bounds, and `explain`."""
