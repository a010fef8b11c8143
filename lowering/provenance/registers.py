"""Lines of instructions that LLVM gives none: those of their users, and of a load those of the loads by its address."""

import re
from collections.abc import Collection, Iterator, Sequence

from .assembly import READING, Instruction, operands_of
from .control_flow import Block, blocks_of
from .trace import is_access

_REGISTER = re.compile(r"%(\w+)")
_NAME = re.compile(r"[a-z]\w*")
_FLAGS = "flags"
_SETS_FLAGS = ("cmp", "test", "vptest", "vucomis", "ucomis", "vcomis", "bt")
_USES_FLAGS = re.compile(r"(j(?!mp)|cmov|set|adc|sbb)")


def inferred_lines(instructions: Sequence[Instruction]) -> list[tuple[int, ...]]:
    """Return the source lines of each instruction.

    LLVM names one line, or none where an optimisation made an instruction that serves several. Such a one has the
    lines of the instructions that use its result, on every way from it to where another value takes its register.
    """
    found: list[tuple[int, ...]] = [() if at.line is None else (at.line,) for at in instructions]
    blocks, uses = blocks_of(instructions), [_registers(instruction) for instruction in instructions]
    for _ in range(2):  # the second time for what is used behind a branch back
        for block in reversed(blocks):
            for place in reversed(range(len(block.lines))):
                number = block.lines[place]
                written = uses[number][1]
                if written is not None and not found[number]:
                    users = _users(written, Block(block.lines[place + 1 :], block.following), blocks, uses)
                    found[number] = tuple(sorted({line for user in users for line in found[user]}))
    return found


def with_loads(
    instructions: Sequence[Instruction], found: Sequence[tuple[int, ...]], source: Sequence[str]
) -> list[tuple[int, ...]]:
    """Return the source lines of each instruction, those of folded loads by their addresses.

    A load that LLVM folds into a vector has no line of its own, and by its users that of the store behind it. Its
    address has the position that another instruction computes, whose line leads to the load through the source. A load
    that is folded into arithmetic has the line of that, which leads back to the load of its operand.

    Args:
        instructions: the assembly.
        found: the lines of each, from 1, as `inferred_lines` returns them.
        source: the lines of the generated source.
    """
    lines = list(found)
    uses = [_registers(instruction) for instruction in instructions]
    for block in blocks_of(instructions):
        writers: dict[str, int] = {}
        for number in block.lines:
            at = instructions[number]
            if at.kind == "load" and not any(is_access(source[line - 1], "load") for line in lines[number]):
                names = [_whole(name) for name in _REGISTER.findall(at.text.partition("(")[2].partition(")")[0])]
                known = {line for name in names if name in writers for line in lines[writers[name]]}
                lines[number] = tuple(_loads_by(known, source)) or (*_loads_of(lines[number], source), *lines[number])
            if (written := uses[number][1]) is not None:
                writers[written] = number
    return lines


def _loads_by(lines: Collection[int], source: Sequence[str]) -> Iterator[int]:
    """Yield the first loads of the source whose address depends on the values that some lines, from 1, assign."""
    names: set[str] = set()
    for number in range(min(lines, default=len(source) + 1), len(source) + 1):
        name, is_assigned, value = source[number - 1].strip().partition(" = ")
        if not is_assigned:
            if not name:
                return  # the end of the function
            continue
        depends = not names.isdisjoint(_NAME.findall(value))
        if depends and is_access(value, "load"):
            yield number
        elif depends or number in lines:
            names.add(name)


def _loads_of(lines: Sequence[int], source: Sequence[str]) -> list[int]:
    """Return the loads of the source whose values some lines, from 1, take, straight or by the line between."""
    found: set[int] = set()
    pending = [(line, 0) for line in lines]
    while pending:
        line, distance = pending.pop()
        for name in set(_NAME.findall(source[line - 1].rpartition(" = ")[2])):
            assigned = f"{name} = "
            above = (at for at in range(line - 1, 0, -1) if source[at - 1].lstrip().startswith(assigned))
            if (at := next(above, None)) is None:
                continue
            if is_access(source[at - 1], "load"):
                found.add(at)
            elif distance < 1:
                pending.append((at, distance + 1))
    return sorted(found)


def _users(
    register: str, rest: Block, blocks: Sequence[Block], uses: Sequence[tuple[frozenset[str], str | None]]
) -> Iterator[int]:
    """Yield the instructions that read a register before another value takes it, in the rest of a block and behind."""
    waiting, reached = [rest], set[int]()
    while waiting:
        block = waiting.pop()
        for number in block.lines:
            read, overwritten = uses[number]
            if register in read:
                yield number
            if overwritten == register:
                break
        else:
            new = [target for target in block.following if target not in reached]
            reached.update(new)
            waiting += [blocks[target] for target in new]


def _registers(instruction: Instruction) -> tuple[frozenset[str], str | None]:
    """Return the registers that an instruction reads, and the one that it writes; the flags count as one."""
    if not instruction.kind:
        return frozenset(), None
    mnemonic, _, rest = instruction.text.partition(" ")
    operands = operands_of(rest)
    read = {_whole(name) for operand in operands[:-1] for name in _REGISTER.findall(operand)}
    last = operands[-1]
    is_register = bool(re.fullmatch(r"%\w+", last))
    if mnemonic.startswith(READING) or instruction.kind in ("branch", "call") or not is_register:
        read |= {_whole(name) for name in _REGISTER.findall(last)}
        written = _FLAGS if mnemonic.startswith(_SETS_FLAGS) else None
    else:
        written = _whole(last[1:])
        if len(operands) < 3 and not mnemonic.startswith(("mov", "vmov", "lea", "vpbroadcast", "vbroadcast")):
            read.add(written)  # two operands: the second is read, too
    if _USES_FLAGS.match(mnemonic):
        read.add(_FLAGS)
    return frozenset(read), written


def _whole(name: str) -> str:
    """Return the name of the whole register that a name is a part of: `rax` of `eax`, `zmm1` of `xmm1`."""
    if match := re.fullmatch(r"[xyz]mm(\d+)", name):
        return f"zmm{match[1]}"
    if match := re.fullmatch(r"(r\d+)[dwb]?", name):
        return match[1]
    if match := re.fullmatch(r"[re]?([abcd])[xlh]", name):
        return f"r{match[1]}x"
    if match := re.fullmatch(r"[re]?(si|di|bp|sp)l?", name):
        return f"r{match[1]}"
    return name
