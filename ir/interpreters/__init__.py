"""The reference interpreter: runs a module of any level on ndarrays, one operation after the other."""
