"""A pass of one's own for gathernest: `sort-indices`."""
