"""Pictures of a run: bars with their values, beside the best peer and beside the roofline bound, as SVG or PNG."""
