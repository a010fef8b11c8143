"""Drawings of a kernel as SVG text: memory accesses, bytes and times, and the ports that llvm-mca says are busy."""
