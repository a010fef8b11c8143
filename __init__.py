"""Gather operators compiled to parallel CPU code, through an IR whose every stage can be read.

    import gathernest as gn

    gn.gather(data, indices, axis=0)        # NumPy arrays in, NumPy array out
    gn.ops["openvino.Gather-8"](data, indices, 0)
    kernel = gn.compile("gather", data, indices, axis=0)
    print(kernel.stages["lower-gather-to-nest"], kernel.source)

Importing this package imports neither Numba nor xDSL; the first call does. `__init__.pyi` lists the public names.
"""

from importlib import import_module
from typing import Any

from .kernels.host.runtime import RUNTIME as _RUNTIME

__version__ = "0.1.0"

with open(f"{__path__[0]}/__init__.pyi", encoding="utf-8") as _stub:
    _IMPORTS = [line.split() for line in _stub if line.startswith("from ")]  # from .ir.errors import X as X
_HOMES = {words[-1]: words[1] for words in _IMPORTS}
__all__ = sorted([*_HOMES, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_RUNTIME.make(lambda: import_module(_HOMES[name], __name__)), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
