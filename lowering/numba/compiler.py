"""Compile generated source: execute it as a module, whose functions Numba compiles to object code."""

import linecache
import re
from typing import Any

from ...ir.errors import SOURCE_HINT, CompileError, no_compiler
from ..native.kernel_code import KernelCode
from .object_code import MachineCode, add_entry, compile_function, optimised
from .program import Program

INSPECTED_FILE = "<gathernest kernel>"


def compile_program(program: Program, file: str) -> bytes:
    """Return the object code of a program, which `KernelCode` loads; `file` stands for its source in messages.

    Raises:
        CompileError: Numba or LLVM rejects it; names the file, the line and the IR operation.
    """
    try:
        function = compiled(program, file)
        code = optimised(function)
        add_entry(function, code)
        return code.object_code()
    except ValueError as error:
        raise _compile_error(program, error, file) from error


def load_text(program: Program, name: str) -> KernelCode:
    """Compile a program in memory, and load it.

    Raises:
        CompileError: as `compile_program`.
    """
    return KernelCode(compile_program(program, f"<gathernest kernel {name}>"))


def inspected_library(program: Program, *, with_lines: bool = False) -> MachineCode:
    """Return the machine code of a program, which is not loaded; its `get_llvm_str()` and `get_asm_str()` are text.

    Args:
        program: the program to compile.
        with_lines: whether each instruction names its line of the source, in the file `INSPECTED_FILE`.

    Raises:
        CompileError: as `compile_program`.
    """
    return optimised(compiled(program, INSPECTED_FILE, with_lines=with_lines))


def compiled(program: Program, file: str, *, with_lines: bool = False) -> Any:
    """Return Numba's compilation of a program's function `gather`, before LLVM's passes.

    After an error, `linecache` keeps the lines of `file`, for tracebacks.

    Raises:
        CompileError: as `compile_program`.
        DependencyError: Numba lacks a file or the current folder.
    """
    linecache.cache[file] = (len(program.source), None, program.source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "gathernest_kernel", "__file__": file}
    try:
        exec(compile(program.source, file, "exec"), names)
        signature = names["signature"]
        function = names["gather"].py_func
        made = compile_function(function, signature.args, signature.return_type, with_lines=with_lines)
        linecache.cache.pop(file, None)
        return made
    except OSError as error:
        raise no_compiler(error) from error
    except Exception as error:
        raise _compile_error(program, error, file) from error
    finally:
        names.clear()  # its functions point to it, and Numba's C objects hide that from the garbage collector


def _compile_error(program: Program, error: Exception, file: str) -> CompileError:
    line = _line_of(error, file)
    op = program.line_ops.get(line) if line is not None else None
    text = program.source.splitlines()[line - 1].strip() if line is not None else ""
    origin = f", printed from {op}" if op else ""
    reasons = [reason for reason in str(error).splitlines() if reason and not reason.startswith("Failed in")]
    reason = reasons[0] if reasons else type(error).__name__
    where = f"{file}:{line}: {text!r}" if line is not None else file
    return CompileError(
        f"the backend rejected generated code at {where}{origin}: {reason}; please report it with {SOURCE_HINT}",
        file=file,
        line=line,
        op=op,
        source=program.source,
    )


def _line_of(error: Exception, file: str) -> int | None:
    """Return the line of the source that an error of Numba or of Python's compiler names."""
    location = getattr(error, "loc", None)
    line = getattr(location, "line", None) or getattr(error, "lineno", None)
    if line is not None:
        return line
    named = re.search(re.escape(file) + r'(?: \(|", line )(\d+)', str(error))
    return int(named[1]) if named else None
