"""Two gathers or two revisions in one report: side by side, timed in turn, with the difference of each level."""
