"""The `gather` and `graph` dialects: operators, gradients, loop nests, shape operators, missing upstream operations."""
