"""What people type: `gathernest` and `gathernest-opt`."""
