"""What `gathernest-opt -t` prints of a module at loops level: source for Numba, or MLIR for upstream's tools."""

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from ...lowering.numba.emitter import emit
from ...lowering.upstream.machine_code import strict_module


@dataclass(frozen=True)
class NumbaTarget(Target):
    """The Python source that Numba compiles."""

    name = "numba"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(emit(module).source)


@dataclass(frozen=True)
class UpstreamTarget(Target):
    """The module without our attributes, which a plain `mlir-opt` takes."""

    name = "upstream"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(f"{strict_module(module)!s}\n")
