"""Step through one element of a result: what a stage did to put it there, forwards and back."""
