"""Two revisions timed in turn, in fresh processes: the process is the unit, since that is where the variance arises."""
