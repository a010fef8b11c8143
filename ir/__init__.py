"""What a gather is: the rules of its operators, element types, the canonical form, the NumPy reference.

The modules of this folder are plain Python, and the run time uses them on every call. Those in the folders need xDSL,
but for `modules/plugins.py`, and are imported only when a kernel is compiled, a stage is read or a model is loaded.
"""
