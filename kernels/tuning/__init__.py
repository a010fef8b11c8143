"""The tuner: candidates of one problem, timed in turn until the fastest is certain."""
