"""Drawings of a kernel as SVG text: the memory accesses of a small instance, and bytes and times beside the bound."""
