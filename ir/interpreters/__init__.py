"""The reference interpreters: they run a module of any level on ndarrays, one operation after the other."""
