"""What a gather is: its meaning, its operators in the IR, its canonical form and its interpreter.

The modules fall in two halves. `errors`, `semantics`, `element_types`, `array_spec` and `canonical` are plain
Python: the run time uses them on every call. `dialect` and everything that imports it needs xDSL, and is imported
only when a kernel is compiled or a stage is read.
"""
