"""The code behind a kernel, for reading: LLVM IR and assembly. Compiles anew, since a cache keeps machine code only."""

import functools
from typing import Any

from ..lowering.numba.compiler import load_text
from .build import build_program
from .plan import Plan


def llvm_ir(plan: Plan) -> str:
    """Return the optimised LLVM IR of a plan's kernel and of the functions that it calls."""
    entry = _fresh(plan)
    return _whole_library(entry, "get_llvm_str")


def assembly(plan: Plan) -> str:
    """Return the assembly of a plan's kernel and of the functions that it calls."""
    entry = _fresh(plan)
    return _whole_library(entry, "get_asm_str")


@functools.lru_cache(maxsize=8)
def _compile(key: str, source_of: "_BuildOnce") -> Any:
    return load_text(source_of.program, "inspected")


class _BuildOnce:
    """Carries a program past the cache, which looks at the key only."""

    def __init__(self, plan: Plan):
        self.program = build_program(plan)[0]

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BuildOnce)


def _fresh(plan: Plan) -> Any:
    return _compile(plan.key, _BuildOnce(plan))


def _whole_library(entry: Any, method: str) -> str:
    """Join the text of the kernel's library and of those that it links, each once."""
    (result,) = entry.overloads.values()
    libraries, texts = [result.library], list[str]()
    for library in libraries:
        texts.append(getattr(library, method)())
        libraries += [linked for linked in getattr(library, "_linking_libraries", ()) if linked not in libraries]
    return "\n".join(texts)
