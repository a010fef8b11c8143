"""The CPU that kernels are made for: valgrind emulates an older one than it runs on, and both read one cache."""

import os


class _NoFeatures(dict[str, bool]):
    def flatten(self, sort: bool = True) -> str:
        return ""


def be_generic() -> None:
    """Have llvmlite name the CPU that NUMBA_CPU_NAME names."""
    import llvmlite.binding as llvm

    name = os.environ["NUMBA_CPU_NAME"]
    llvm.get_host_cpu_name = lambda: name
    llvm.get_host_cpu_features = _NoFeatures
