"""Gather operators compiled to parallel CPU code, through an IR whose every stage can be read.

    import gathernest as gn

    gn.gather(data, indices, axis=0)        # NumPy arrays in, NumPy array out
    gn.ops["openvino.Gather-8"](data, indices, 0)
    kernel = gn.compile("gather", data, indices, axis=0)
    print(kernel.stages["lower-to-nest"], kernel.source)

Importing this package imports neither Numba nor xDSL; the first call does. `__init__.pyi` lists the public names.
"""

from .kernels.host.runtime import RUNTIME as _RUNTIME

__version__ = "0.1.0"

# What each module has; a test compares it with the stub.
_NAMES = {
    "interop.models.model": "Model load",
    "ir.array_spec": "ArraySpec",
    "ir.errors": "BoundsError CompileError DependencyError GathernestError IndexTypeError InternalError"
    " InvalidGatherError ModelError OutOfMemoryError ScheduleError",
    "kernels.fill": "Fill",
    "kernels.gather": "gather gather_elements gather_nd",
    "kernels.gradient": "gather_elements_grad gather_grad gather_nd_grad",
    "kernels.reduction.gather_reduce": "gather_reduce gather_reduce_grad gather_reduce_weights_grad",
    "kernels.host.knobs": "knobs",
    "kernels.kernel": "Kernel compile",
    "kernels.ops": "ops",
    "kernels.runtime.prepare": "wait",
    "kernels.take": "take take_along_axis",
    "kernels.tune": "tune",
    "kernels.warm": "warm",
    "lowering.schedule.schedule": "Schedule",
    "playground.bisect": "WrongPass bisect",
    "playground.script": "ScheduleScript schedule",
    "playground.stage": "run_stage",
    "playground.step": "step",
    "playground.trace": "Steps",
}
# Modules that import NumPy and modules of ours alone; a test holds them to it.
_WITHOUT_LIBRARIES = (
    "ir.array_spec",
    "ir.errors",
    "kernels.fill",
    "kernels.gather",
    "kernels.gradient",
    "kernels.host.knobs",
    "kernels.kernel",
    "kernels.reduction.gather_reduce",
    "kernels.runtime.prepare",
    "kernels.take",
    "lowering.schedule.schedule",
)
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
__all__ = sorted([*_HOMES, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]


# What methods of lower floors find here, so that these import no higher floor.
_ATTACHED = {"_report_kernel": "playground.report"}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name) or _ATTACHED.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(
        _RUNTIME.make(lambda: import_module(f".{home}", __name__), is_ours=home in _WITHOUT_LIBRARIES), name
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
