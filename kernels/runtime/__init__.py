"""From a call to a running kernel: arguments, plan, schedule, compilation, caches, launch."""
