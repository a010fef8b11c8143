"""What must hold of a stage, a condition a file, decided for all sizes: lists of failures, empty where it holds."""
