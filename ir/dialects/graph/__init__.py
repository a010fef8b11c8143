"""What models compute and move between their gathers: a table of functions, and operations of the `graph` dialect."""
