"""The code behind a kernel, for reading: LLVM IR and assembly. Compiles anew, since a cache keeps machine code only."""

from typing import Any

from ...lowering.numba.compiler import load_text
from .compile import build_program
from .plan import Plan

_MOST_KEPT = 8
_compiled: dict[str, Any] = {}


def llvm_ir(plan: Plan) -> str:
    """Return the optimised LLVM IR of a plan's kernel and of the functions that it calls."""
    return _library_text(plan, "get_llvm_str")


def assembly(plan: Plan) -> str:
    """Return the assembly of a plan's kernel and of the functions that it calls."""
    return _library_text(plan, "get_asm_str")


def _library_text(plan: Plan, method: str) -> str:
    """Return the text of the kernel's own library, into which LLVM has inlined what it calls."""
    if plan.key not in _compiled:
        if len(_compiled) >= _MOST_KEPT:
            _compiled.clear()
        _compiled[plan.key] = load_text(build_program(plan), "inspected")
    (result,) = _compiled[plan.key].overloads.values()
    return getattr(result.library, method)()
