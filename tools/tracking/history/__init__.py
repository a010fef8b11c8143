"""History: stored counts and paired ratios over commits, their change points, and a page with a chart of each."""
