"""From a call to a running kernel: array checks, plan, schedule, compilation, call cache, disk cache, launch."""
