"""Provenance: which line of one stage each line of the next came from, down to source, LLVM IR and assembly."""
