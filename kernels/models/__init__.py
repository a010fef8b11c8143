"""What `gathernest.load` reads, and the arrays that a model is called with."""
