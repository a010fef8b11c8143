"""The commands about this machine: what it is, what is wrong with it, and measuring it."""
