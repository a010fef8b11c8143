"""From loops to machine code by upstream's tools, and the machine code as a function on arrays.

`mlir-opt` lowers the module to the dialect `llvm`, and `mlir-translate` prints it as LLVM IR. LLVM's `opt` and `llc`
make it machine code where they are installed, and llvmlite otherwise. An engine of llvmlite loads it.
"""

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm
import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp

from ...ir.errors import CompileError
from ..native.llvm_jit import new_engine
from ..nest.queries import functions
from .c_call import C_FORM, c_call
from .strict import strict_module
from .tools import LOWER_TO_LLVM, Tools, run_tool


@dataclass(frozen=True, slots=True)
class UpstreamCode:
    """What upstream made of a module.

    Attributes:
        mlir: the text that `mlir-opt` was given.
        llvm_ir: what `mlir-translate` made of it, not optimised.
        assembly: the assembly of the machine code.
        object_code: the machine code.
        command: a pipe of programs that makes the assembly of `mlir`, as a shell takes it.
        remark: what is not in the command; empty where it is all.
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
            CompileError: it calls what this process does not have.
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
        CompileError: a tool rejects it; the message has the tool and what it says.
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
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    machine = target.create_target_machine(llvm.get_host_cpu_name(), features, opt=3, reloc="pic")
    try:
        module = llvm.parse_assembly(llvm_ir)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise CompileError(f"mlir-translate prints what LLVM cannot read: {reason}", file="<stdin>") from None
    module.triple, module.data_layout = llvm.get_default_triple(), str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module), machine.emit_object(module)


def _declared(llvm_ir: str) -> list[str]:
    """Return the functions that LLVM IR calls and does not define, without those of LLVM."""
    names = re.findall(r'^declare [^@\n]*@"?([\w.$]+)"?\(', llvm_ir, flags=re.MULTILINE)
    return [name for name in names if not name.startswith("llvm.")]
