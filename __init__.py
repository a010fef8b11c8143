"""Gather operators compiled to parallel CPU code, through an IR whose every stage can be read.

    import gathernest as gn

    gn.gather(data, indices, axis=0)        # NumPy arrays in, NumPy array out
    gn.ops["openvino.Gather-8"](data, indices, 0)
    kernel = gn.compile("gather", data, indices, axis=0)
    print(kernel.stages["lower-gather-to-nest"], kernel.source)

Importing this package imports neither Numba nor xDSL; the first call does.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ir.array_spec import ArraySpec
    from .ir.errors import (
        BoundsError,
        CompileError,
        DependencyError,
        GathernestError,
        IndexTypeError,
        InternalError,
        InvalidGatherError,
        ModelError,
        ScheduleError,
    )
    from .kernels.gather import gather, gather_elements, gather_nd
    from .kernels.gradient import gather_elements_grad, gather_grad, gather_nd_grad
    from .kernels.host.knobs import knobs
    from .kernels.kernel import Kernel, compile
    from .kernels.model import Model, load
    from .kernels.operator_versions import ops
    from .kernels.tune import tune
    from .kernels.warm import warm
    from .lowering.schedule.schedule import Schedule

__version__ = "0.1.0"

_HOMES = {
    "ArraySpec": "ir.array_spec",
    "BoundsError": "ir.errors",
    "CompileError": "ir.errors",
    "DependencyError": "ir.errors",
    "GathernestError": "ir.errors",
    "IndexTypeError": "ir.errors",
    "InternalError": "ir.errors",
    "InvalidGatherError": "ir.errors",
    "ModelError": "ir.errors",
    "ScheduleError": "ir.errors",
    "Kernel": "kernels.kernel",
    "compile": "kernels.kernel",
    "gather": "kernels.gather",
    "gather_elements": "kernels.gather",
    "gather_elements_grad": "kernels.gradient",
    "gather_grad": "kernels.gradient",
    "gather_nd": "kernels.gather",
    "gather_nd_grad": "kernels.gradient",
    "knobs": "kernels.host.knobs",
    "Model": "kernels.model",
    "load": "kernels.model",
    "ops": "kernels.operator_versions",
    "Schedule": "lowering.schedule.schedule",
    "tune": "kernels.tune",
    "warm": "kernels.warm",
}

__all__ = [
    "ArraySpec",
    "BoundsError",
    "CompileError",
    "DependencyError",
    "GathernestError",
    "IndexTypeError",
    "InternalError",
    "InvalidGatherError",
    "Kernel",
    "Model",
    "ModelError",
    "Schedule",
    "ScheduleError",
    "__version__",
    "compile",
    "gather",
    "gather_elements",
    "gather_elements_grad",
    "gather_grad",
    "gather_nd",
    "gather_nd_grad",
    "knobs",
    "load",
    "ops",
    "tune",
    "warm",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
