"""The command line: `gathernest` and `gathernest-opt`."""
