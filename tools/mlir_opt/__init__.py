"""The command `gathernest-opt`: passes over MLIR text."""
