"""The loops of assembly: basic blocks, dominators, and the natural loop of each branch back."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .assembly import Instruction
from .trace import MachineLoop

_JUMP = re.compile(r"(j\w+)\s+(\.L\w+)$")
_ENDS = re.compile(r"(jmp|ret|ud2)")


@dataclass
class Block:
    """Instructions that run one after the other: their numbers, and the blocks that may come next."""

    lines: list[int]
    following: list[int] = field(default_factory=list)
    preceding: list[int] = field(default_factory=list)


def loops_of(instructions: Sequence[Instruction]) -> tuple[MachineLoop, ...]:
    """Return the natural loops of the functions of an assembly, in the order of their first lines.

    Loops that share their first block are one. A jump through a table is taken to lead nowhere.
    """
    blocks = blocks_of(instructions)
    bodies: dict[int, set[int]] = {}
    for head, dominators in enumerate(_dominators(blocks)):
        for target in blocks[head].following:
            if target in dominators:
                bodies.setdefault(target, {target}).update(_natural_loop(blocks, target, head))
    loops = []
    for header, body in bodies.items():
        lines = sorted(line for block in body for line in blocks[block].lines)
        depth = sum(1 for other in bodies.values() if header in other and body <= other)
        is_innermost = not any(other in body for other in bodies if other != header)
        kinds = {instructions[line].kind for line in lines}
        loops.append(MachineLoop(tuple(lines), depth, is_innermost and not kinds.isdisjoint(("load", "store"))))
    return tuple(sorted(loops, key=lambda loop: (loop.first, loop.depth)))


def blocks_of(instructions: Sequence[Instruction]) -> list[Block]:
    """Return the basic blocks, each linked with those that may come next; none of another function does."""
    blocks: list[Block] = []
    labels: dict[str, int] = {}
    starts = True
    for number, instruction in enumerate(instructions):
        is_label = instruction.text.endswith(":")
        if starts or is_label:
            blocks.append(Block([]))
        if is_label:
            labels[instruction.text[:-1]] = len(blocks) - 1
        blocks[-1].lines.append(number)
        starts = instruction.kind == "branch"
    for number, block in enumerate(blocks):
        last = instructions[block.lines[-1]].text
        jump = _JUMP.match(last)
        if jump and jump[2] in labels:
            block.following.append(labels[jump[2]])
        if not _ENDS.match(last) and number + 1 < len(blocks):
            first = instructions[blocks[number + 1].lines[0]].text
            if not first.endswith(":") or first.startswith(".L"):
                block.following.append(number + 1)
        for target in block.following:
            blocks[target].preceding.append(number)
    return blocks


def _dominators(blocks: list[Block]) -> list[set[int]]:
    """Return for each block those that every way from the start of its function passes, itself included."""
    every = set(range(len(blocks)))
    found = [every if block.preceding else {number} for number, block in enumerate(blocks)]
    changed = True
    while changed:
        changed = False
        for number, block in enumerate(blocks):
            if block.preceding:
                shared = set.intersection(*(found[other] for other in block.preceding)) | {number}
                changed |= shared != found[number]
                found[number] = shared
    return found


def _natural_loop(blocks: list[Block], header: int, tail: int) -> set[int]:
    """Return the blocks from which the end of a branch back can be reached without passing its target."""
    body, waiting = {header, tail}, [tail]
    while waiting:
        block = waiting.pop()
        if block != header:
            new = [other for other in blocks[block].preceding if other not in body]
            body.update(new)
            waiting += new
    return body
