"""From loops to machine code by upstream's tools, and the machine code as a function on arrays.

`mlir-opt` lowers the module to the dialect `llvm`, and `mlir-translate` prints it as LLVM IR. LLVM's `opt` and `llc`
make machine code where they are installed, and llvmlite otherwise. An engine of llvmlite loads it. A function is called
as in C: arrays are passed by descriptors of memrefs, and numbers as they are.
"""

import contextlib
import ctypes
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    Float32Type,
    Float64Type,
    FunctionType,
    IntegerType,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute

from ...ir.errors import CompileError, DependencyError, ScheduleError
from ..native.llvm_jit import host_cpu, new_engine, optimise, target_machine
from ..nest.queries import functions
from ..programs import find, find_all

# The LLVM that llvmlite carries; tools of the same version are preferred.
LLVM_MAJOR: int = llvm.llvm_version_info[0]
MOST_SECONDS = 300
# From upstream's loops to the dialect `llvm`.
LOWER_TO_LLVM = (
    *("--convert-scf-to-cf", "--convert-vector-to-llvm", "--convert-cf-to-llvm", "--convert-arith-to-llvm"),
    *("--expand-strided-metadata", "--lower-affine", "--finalize-memref-to-llvm", "--convert-func-to-llvm"),
    *("--convert-arith-to-llvm", "--convert-cf-to-llvm", "--reconcile-unrealized-casts"),
)


@dataclass(frozen=True, slots=True)
class Tools:
    """Programs of one LLVM, as their paths; `opt` and `llc` are None where they are not installed.

    Attributes:
        major: their version of LLVM.
    """

    major: int
    mlir_opt: str
    mlir_translate: str
    opt: str | None
    llc: str | None


def find_tools() -> Tools:
    """Return the tools of llvmlite's LLVM, or of the newest other LLVM that is on the PATH.

    Raises:
        DependencyError: there is no `mlir-opt` with its `mlir-translate`, or llvmlite cannot read their output.
    """
    try:
        return _tools_of(LLVM_MAJOR)
    except DependencyError as error:
        reason = error
    for newest in find_all("mlir-opt"):
        with contextlib.suppress(DependencyError):
            tools = _tools_of(newest.version[0])
            if tools.opt is not None and tools.llc is not None:
                return tools
    raise DependencyError(
        f"mlir-opt and mlir-translate of LLVM {LLVM_MAJOR}, or of another LLVM beside its opt and llc, are needed: "
        f"{reason}"
    )


def run_tool(command: Sequence[str], text: str | bytes) -> bytes:
    """Run a program on a text and return its output; raises CompileError where it fails."""
    given = text.encode() if isinstance(text, str) else text
    try:
        return subprocess.run(command, input=given, capture_output=True, timeout=MOST_SECONDS, check=True).stdout
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip() or f"it ended with status {error.returncode}"
    except subprocess.TimeoutExpired:
        reason = f"it takes more than {MOST_SECONDS} s"
    except OSError as error:
        reason = f"it cannot be run ({error.strerror})"
    raise CompileError(f"{os.path.basename(command[0])} rejects the module: {reason}", file="<stdin>")


def _tools_of(major: int) -> Tools:
    """Return the programs of one version of LLVM; raises DependencyError."""
    mlir_opt, translate = (find(name, major=major).path for name in ("mlir-opt", "mlir-translate"))
    others: dict[str, str] = {}
    for name in ("opt", "llc"):
        with contextlib.suppress(DependencyError):
            others[name] = find(name, major=major).path
    return Tools(major, mlir_opt, translate, others.get("opt"), others.get("llc"))


# Modules and machine code


@dataclass(frozen=True, slots=True)
class UpstreamCode:
    """The results of upstream's tools for a module.

    Attributes:
        mlir: the input of `mlir-opt`.
        llvm_ir: the output of `mlir-translate`, not optimised.
        assembly: the assembly of the machine code.
        object_code: the machine code.
        command: a pipe of programs that makes the assembly of `mlir`, as a shell takes it.
        remark: the steps that are not in the command; empty where it has all.
        name, type_: of the module's function.
    """

    mlir: str
    llvm_ir: str
    assembly: str
    object_code: bytes
    command: str
    remark: str
    name: str
    type_: FunctionType

    def load(self) -> Callable[[Sequence[np.ndarray], Sequence[float]], Callable[[], int]]:
        """Load the machine code, and return a function from views and scales to a call, as `c_call` returns it.

        Raises:
            CompileError: it calls a function that this process does not have.
        """
        unknown = [name for name in _declared(self.llvm_ir) if llvm.address_of_symbol(name) is None]
        if unknown:  # LLVM would end the process
            raise CompileError(f"the module calls {', '.join(unknown)}, which this process does not have", file="LLVM")
        engine = new_engine("")
        engine.add_object_file(llvm.ObjectFileRef.from_data(self.object_code))
        engine.finalize_object()
        address = engine.get_function_address(f"{C_FORM}{self.name}")

        def bind(views: Sequence[np.ndarray], scales: Sequence[float]) -> Callable[[], int]:
            call = c_call(address, self.type_, views, scales)
            return lambda kept=engine: call()  # the engine has the machine code

        return bind


def compile_upstream(module: ModuleOp, tools: Tools) -> UpstreamCode:
    """Compile a module at loops level by upstream's tools, for this machine.

    Raises:
        ScheduleError: it has operations of ours.
        CompileError: a tool rejects it; the message has the tool and its error.
    """
    strict = strict_module(module)
    function = functions(strict)[0]
    mlir = str(strict) + "\n"
    lower, translate = [tools.mlir_opt, *LOWER_TO_LLVM], [tools.mlir_translate, "--mlir-to-llvmir"]
    llvm_ir = run_tool(translate, run_tool(lower, mlir)).decode(errors="replace")
    commands, remark = [lower, translate], ""
    if tools.opt is not None and tools.llc is not None:
        # by its name alone LLVM takes a Zen 4 to have AVX-512, which a virtual machine may leave out
        target = [f"-mtriple={llvm.get_default_triple()}", "-mcpu=native"]
        optimise = [tools.opt, "-O3", *target]
        generate = [tools.llc, "-O3", *target, "-relocation-model=pic"]
        optimised = run_tool(optimise, llvm_ir)
        assembly = run_tool([*generate, "-filetype=asm", "-o", "-"], optimised).decode(errors="replace")
        object_code = run_tool([*generate, "-filetype=obj", "-o", "-"], optimised)
        commands += [optimise, generate]
    else:
        assembly, object_code = _by_llvmlite(llvm_ir)
        remark = f"then LLVM {llvm.llvm_version_info[0]} of llvmlite, -O3 for {llvm.get_host_cpu_name()}"
    command = " | ".join(shlex.join([os.path.basename(program), *words]) for program, *words in commands)
    return UpstreamCode(
        *(mlir, llvm_ir, assembly, object_code, command, remark), function.sym_name.data, function.function_type
    )


def _by_llvmlite(llvm_ir: str) -> tuple[str, bytes]:
    """Return optimised assembly and object code of LLVM IR."""
    machine = target_machine(*host_cpu(), opt=3, reloc="pic")
    try:
        module = llvm.parse_assembly(llvm_ir)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise CompileError(f"LLVM cannot read the output of mlir-translate: {reason}", file="<stdin>") from None
    optimise(module, machine, 3)
    return machine.emit_assembly(module), machine.emit_object(module)


def _declared(llvm_ir: str) -> list[str]:
    """Return the functions that LLVM IR calls and does not define, without LLVM's own."""
    names = re.findall(r'^declare [^@\n]*@"?([\w.$]+)"?\(', llvm_ir, flags=re.MULTILINE)
    return [name for name in names if not name.startswith("llvm.")]


def strict_module(module: ModuleOp, entry: str | None = None) -> ModuleOp:
    """Return a copy that a plain `mlir-opt` takes: without our discardable attributes.

    Args:
        module: upstream's operations alone, as `lower-nest-to-loops` and the passes behind it leave them.
        entry: the new name of its function; as it is when omitted.

    Raises:
        ScheduleError: it has operations of ours, which upstream does not know.
    """
    left = sorted({op.name for op in module.walk() if op.name.startswith("gather.")})
    if left:
        raise ScheduleError(
            f"upstream MLIR does not know {', '.join(left)}; lower the module to loops first, such as with "
            "gathernest-opt -p default"
        )
    copy = module.clone()
    for op in copy.walk():
        op.attributes = {name: value for name, value in op.attributes.items() if not name.startswith("gather.")}
    for function in functions(copy):
        _make_callable(function, function.sym_name.data if entry is None else entry)
    return copy


def _make_callable(function: func.FuncOp, name: str) -> None:
    """Drop the attributes of a function's arguments, and have upstream make a form of it that C can call."""
    if function.is_declaration:
        return
    function.arg_attrs = ArrayAttr([DictionaryAttr({}) for _ in function.body.block.args])
    function.sym_name = StringAttr(name)
    function.attributes["llvm.emit_c_interface"] = UnitAttr()


# Calls

# Upstream's name of the form of a function that C can call.
C_FORM = "_mlir_ciface_"


def c_call(
    address: int, type_: FunctionType, views: Sequence[np.ndarray], scales: Sequence[float]
) -> Callable[[], int]:
    """Return a call of machine code on these arguments; it returns the result of the function, or 0 for none.

    Args:
        address: of the function `C_FORM` with its name.
        type_: of the function as the module has it.
        views: its memrefs, as `bind_arguments` returns them.
        scales: the numbers that follow them.
    """
    descriptors = [memref_descriptor(view) for view in views]
    kinds = [_kind(argument) for argument in type_.inputs.data[len(views) :]]
    floats = ctypes.c_float, ctypes.c_double
    numbers = [scale if kind in floats else kind(int(scale)) for scale, kind in zip(scales, kinds, strict=True)]
    result = ctypes.c_int64 if type_.outputs.data else None
    function = ctypes.CFUNCTYPE(result, *[ctypes.c_void_p] * len(views), *kinds)(address)
    given = [*map(ctypes.addressof, descriptors), *numbers]

    def call(kept: Any = (descriptors, views)) -> int:
        return function(*given) or 0

    return call


def memref_descriptor(view: np.ndarray) -> ctypes.Array[ctypes.c_int64]:
    """Return the descriptor of a view: allocated and aligned pointer, offset, sizes, strides in elements."""
    assert all(stride % view.itemsize == 0 for stride in view.strides)
    numbers = [view.ctypes.data] * 2 + [0, *view.shape, *(stride // view.itemsize for stride in view.strides)]
    return (ctypes.c_int64 * len(numbers))(*numbers)


def _kind(type_: Attribute) -> Any:
    """Return the type as which C passes a number."""
    if isinstance(type_, IntegerType):
        return getattr(ctypes, f"c_int{type_.width.data}")
    return {Float32Type: ctypes.c_float, Float64Type: ctypes.c_double}[type(type_)]
