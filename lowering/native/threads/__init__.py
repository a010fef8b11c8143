"""The threads of a parallel kernel, and how a call without Python finds out how many it may use."""
