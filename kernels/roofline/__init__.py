"""The roofline: distinct lines, capacity misses, peak rates, lower and measured bounds, and `Kernel.explain`."""
