"""Gathers that sum the slices of bags of indices, and their gradients."""
