"""Compile generated source: execute it as a module, whose functions Numba compiles to object code."""

import linecache
import re
from collections.abc import Callable
from typing import Any, TypeVar

from ...ir.errors import SOURCE_HINT, CompileError
from ..native.kernel_code import KernelCode
from .object_code import forget, library_of, njit, njit_with_lines, object_code
from .program import Program

INSPECTED_FILE = "<gathernest kernel>"
OUR_NJIT = "_our_njit"
# What becomes of a compiled function.
Made = TypeVar("Made")


def compile_program(program: Program, file: str) -> bytes:
    """Return the object code of a program, which `KernelCode` loads; `file` stands for its source in messages.

    Raises:
        CompileError: Numba or LLVM rejects it; names the file, the line and the IR operation.
    """
    return compiled(program, file, object_code)


def load_text(program: Program, name: str) -> KernelCode:
    """Compile a program in memory, and load it.

    Raises:
        CompileError: as `compile_program`.
    """
    return KernelCode(compile_program(program, f"<gathernest kernel {name}>"))


def inspected_library(program: Program, *, with_lines: bool = False) -> Any:
    """Return Numba's library of a program, into which LLVM has inlined what it calls; it is not loaded.

    Args:
        program: what to compile.
        with_lines: whether each instruction names its line of the source, in the file `INSPECTED_FILE`.

    Raises:
        CompileError: as `compile_program`.
    """
    return compiled(program, INSPECTED_FILE, library_of, njit_with_lines if with_lines else njit)


def compiled(program: Program, file: str, finish: Callable[[Any], Made], njit: Any = njit) -> Made:
    """Return what `finish` makes of the dispatcher of a program's function `gather`, which `njit` makes.

    After an error, `linecache` keeps the lines of `file`, for tracebacks.

    Raises:
        CompileError: as `compile_program`.
    """
    linecache.cache[file] = (len(program.source), None, program.source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "gathernest_kernel", "__file__": file, OUR_NJIT: njit}
    try:
        exec(compile(_with_our_njit(program.source), file, "exec"), names)
        made = finish(names["gather"])
        linecache.cache.pop(file, None)
        return made
    except Exception as error:
        raise _compile_error(program, error, file) from error
    finally:
        forget(names.values())
        names.clear()  # its functions point to it, and Numba's C objects hide that from the garbage collector


def _with_our_njit(source: str) -> str:
    """Have a source replace Numba's `njit`, in the line that imports it, by the one that it finds as `OUR_NJIT`."""
    ours = f"njit = {OUR_NJIT}"
    return re.sub(r"^from numba import .*\bnjit\b.*$", rf"\g<0>; {ours}", source, count=1, flags=re.MULTILINE)


def _compile_error(program: Program, error: Exception, file: str) -> CompileError:
    line = _line_of(error, file)
    op = program.line_ops.get(line) if line is not None else None
    text = program.source.splitlines()[line - 1].strip() if line is not None else ""
    came = f", printed from {op}" if op else ""
    reasons = [reason for reason in str(error).splitlines() if reason and not reason.startswith("Failed in")]
    reason = reasons[0] if reasons else type(error).__name__
    where = f"{file}:{line}: {text!r}" if line is not None else file
    return CompileError(
        f"the backend rejected generated code at {where}{came}: {reason}; please report it with {SOURCE_HINT}",
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
