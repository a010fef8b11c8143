"""Passes on the graph of a model, before its gathers are lowered one by one."""
