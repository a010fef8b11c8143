"""Lines of instructions that LLVM gives none: those of the instructions that use what they compute."""

import re
from collections.abc import Iterator, Sequence

from .assembly import READING, Instruction, operands_of
from .control_flow import Block, blocks_of

_REGISTER = re.compile(r"%(\w+)")
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
