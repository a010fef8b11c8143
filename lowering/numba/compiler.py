"""Load generated source: execute it as a module, which makes Numba compile it or take it from its cache."""

import linecache
import re
import sys
import tempfile
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba

from ...ir.errors import CompileError
from .program import Program


def load_file(program: Program, path: Path, name: str) -> Any:
    """Execute a program's source, which lies at `path`, and return its Numba dispatcher, compiled.

    Numba keeps the machine code in `__pycache__` beside the file, under `name`, and takes it from there next time.

    Raises:
        CompileError: Numba or LLVM rejects it; names the file, the line and the IR operation.
        OSError: the machine code cannot be written, as on a full disk.
    """
    with _cache_beside_source():
        return _execute(program, program.source, str(path), name)


def load_text(program: Program, name: str) -> Any:
    """Execute a program's source without a file, and return its dispatcher, compiled now and cached nowhere.

    Raises:
        CompileError: as `load_file`.
    """
    source = program.source.replace("cache=True", "cache=False")
    file = f"<gathernest kernel {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return _execute(program, source, file, name)


@contextmanager
def _cache_beside_source() -> Iterator[None]:
    """Keep NUMBA_CACHE_DIR from moving the machine code away from its source."""
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, ""  # type: ignore[attr-defined]
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


def _execute(program: Program, source: str, file: str, name: str) -> Any:
    """Run a module's code with its name in `sys.modules`, where Numba looks for it."""
    module = types.ModuleType(f"gathernest_kernel_{name}")
    module.__file__ = file
    sys.modules[module.__name__] = module
    try:
        with _interrupts_of_callbacks():
            exec(compile(source, file, "exec"), module.__dict__)
    except BaseException as error:
        del sys.modules[module.__name__]
        if isinstance(error, OSError) or not isinstance(error, Exception):
            raise
        if "no locator available" in str(error):  # Numba says so when it can make no file beside the source
            raise OSError(f"Numba can make no file beside {file}") from error
        raise _compile_error(program, error, file) from error
    return module.__dict__["gather"]


@contextmanager
def _interrupts_of_callbacks() -> Iterator[None]:
    """Raise an interrupt that came while LLVM called Python: ctypes only prints it, and then Numba lacks the code."""
    before, thread, interrupts = sys.unraisablehook, threading.get_ident(), list[BaseException]()

    def note(unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, Exception) or threading.get_ident() != thread:
            before(unraisable)
        else:
            interrupts.append(unraisable.exc_value)

    sys.unraisablehook = note
    try:
        yield
    finally:
        sys.unraisablehook = before
        if interrupts:
            raise interrupts[0]


def _compile_error(program: Program, error: Exception, file: str) -> CompileError:
    line = _line_of(error, file)
    op = program.line_ops.get(line) if line is not None else None
    text = program.source.splitlines()[line - 1].strip() if line is not None else ""
    came = f", printed from {op}" if op else ""
    reasons = [reason for reason in str(error).splitlines() if reason and not reason.startswith("Failed in")]
    reason = reasons[0] if reasons else type(error).__name__
    kept = _kept(program)
    where = f"{kept}:{line}: {text!r}" if line is not None else kept
    return CompileError(
        f"the backend rejected generated code at {where}{came}: {reason}; please report it with that file",
        file=kept,
        line=line,
        op=op,
    )


def _kept(program: Program) -> str:
    """Write the source to a file outside of the cache's temporary folder, and return its name."""
    with tempfile.NamedTemporaryFile("w", prefix="gathernest-", suffix=".py", delete=False) as saved:
        saved.write(program.source)
    return saved.name


def _line_of(error: Exception, file: str) -> int | None:
    """Return the line of the source that an error of Numba or of Python's compiler names."""
    location = getattr(error, "loc", None)
    line = getattr(location, "line", None) or getattr(error, "lineno", None)
    if line is not None:
        return line
    named = re.search(re.escape(file) + r'(?: \(|", line )(\d+)', str(error))
    return int(named[1]) if named else None
