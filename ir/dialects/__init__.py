"""The `gather` and `graph` dialects: operators, gradients, loop nests, and what xDSL lacks of upstream MLIR."""
