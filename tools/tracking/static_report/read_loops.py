"""From the assembly of a kernel to the facts of its loops. Plain text, no compiler."""

import collections
import re
from collections.abc import Sequence

from ....lowering.provenance.assembly import Instruction, loop_around, loops_of
from ....lowering.provenance.trace import MachineLoop
from .kernel_facts import LoopFacts

_VECTOR = re.compile(r"%([xyz])mm")
_BYTES = {"x": 16, "y": 32, "z": 64}
# They use one lane of a vector register.
_SCALAR = re.compile(r"v?(mov(ss|sd|d|q)|(add|sub|mul|div|sqrt|min|max|u?comi|cvt\w+)(ss|sd)|cvt\w*(ss|sd|si)2\w+) ")
_ON_STACK = re.compile(r"-?\d*\(%rsp\)")
_MOVES = ("mov", "vmov")
_LABEL = re.compile(r"\.L(CPI|BB)\w+")


def read_loops(instructions: Sequence[Instruction], source: str) -> tuple[LoopFacts, ...]:
    """Return the facts of the loops of an assembly.

    Args:
        instructions: the assembly.
        source: the generated source that its lines are of; where it is empty, loops are named by their order.
    """
    lines, loops, named = source.splitlines(), loops_of(instructions), collections.Counter[str]()
    found: list[LoopFacts] = []
    for loop in loops:
        inside = {line for other in loops if set(other.lines) < set(loop.lines) for line in other.lines}
        own = [instructions[line] for line in loop.lines if line not in inside]
        came = [each.line for each in own if each.line is not None and each.line <= len(lines)]
        name = f"{_function(instructions, loop)} {loop_around(lines, came)[0] or 'loop'}"
        named[name] += 1
        numbered = name if named[name] == 1 else f"{name}#{named[name]}"
        code = _code([instructions[line].text for line in loop.lines]) if loop.is_hot else ()
        found.append(_facts(numbered, loop, [each for each in own if each.kind], code))
    return tuple(found)


def _function(instructions: Sequence[Instruction], loop: MachineLoop) -> str:
    """Return the function that a loop is in, by its name in the source."""
    labels = (each.text for each in reversed(instructions[: loop.first]) if each.text.endswith(":"))
    return next((label[:-1].removeprefix("tile.") for label in labels if not label.startswith(".")), "")


def _facts(name: str, loop: MachineLoop, own: Sequence[Instruction], code: tuple[str, ...]) -> LoopFacts:
    spills = [each for each in own if _is_spill(each)]
    kinds = collections.Counter(each.kind for each in own if not _is_spill(each))
    widths = [_BYTES[size] for each in own if not _SCALAR.match(each.text) for size in _VECTOR.findall(each.text)]
    nontemporal = [each for each in own if each.kind == "store" and "movnt" in each.text]
    return LoopFacts(
        name,
        loop.depth,
        loop.is_hot,
        vector_bytes=max(widths, default=0),
        instructions=len(own),
        loads=kinds["load"],
        stores=kinds["store"],
        nontemporal_stores=len(nontemporal),
        prefetches=kinds["prefetch"],
        spills=len(spills),
        calls=kinds["call"],
        branches=kinds["branch"],
        code=code,
    )


def _is_spill(instruction: Instruction) -> bool:
    """Return whether an instruction moves a value between a register and a fixed place of the stack."""
    return bool(_ON_STACK.search(instruction.text)) and instruction.text.startswith(_MOVES)


def _code(texts: Sequence[str]) -> tuple[str, ...]:
    """Return instructions with labels and constants numbered as they appear, so that code before them plays no part."""
    numbers: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        kind = ".C" if found[1] == "CPI" else ".L"
        return numbers.setdefault(found[0], f"{kind}{1 + sum(name.startswith(kind) for name in numbers.values())}")

    return tuple(_LABEL.sub(numbered, " ".join(text.split())) for text in texts)
