"""The cost models: the predicted time of a gather, a gradient and a reduction under a schedule. Plain Python."""
