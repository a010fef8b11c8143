"""How a gather becomes code: passes, pipelines, schedules, code generation with Numba, and native code of our own.

`schedule` and `numba.program` are plain Python. Everything else needs xDSL or Numba, and is imported only when a kernel
is compiled, loaded or read.
"""
