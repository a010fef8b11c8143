"""How a gather becomes code: passes, pipelines, schedules and the Numba code generator.

`schedule` and `numba.program` are plain Python. Everything else needs xDSL or Numba, and is imported only when a kernel
is compiled, loaded or read.
"""
