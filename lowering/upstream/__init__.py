"""The other way from loops to machine code: upstream's `mlir-opt`, `mlir-translate` and LLVM."""
