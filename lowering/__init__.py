"""How a gather becomes code: passes, pipelines, schedules and the Numba code generator.

`schedule` is plain Python; everything else needs xDSL and is imported only when a kernel is compiled or a stage is read.
"""
