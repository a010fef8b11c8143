"""Assembly and LLVM IR as lines: instructions with their source lines, basic blocks, loops, and the uses of registers.

Plain text in, plain values out: no compiler.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from .trace import MachineLoop, is_access

_MANGLED = re.compile(r"_ZN\d+gathernest_kernel(?:_inspected)?(\d+)(\w+)")
_LOCATION = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
# Labels that mark positions for the debugger, not for a jump.
_MARK = re.compile(r"\.L(tmp|func|cfi|debug|info|sec|str|line|addr)")
# Directives that decide the bytes of the code: alignment, constants, and the sections that constants lie in.
_MAKES_BYTES = re.compile(r"\.(p2align|quad|long|short|value|byte|zero|ascii|asciz|section\s+\.rodata)")
# Numba numbers every function that it compiles in a process, and mangles its own flags into names.
_NUMBA_TAGS = re.compile(r"B\d+v\d+B\d+c\w+")
_FILE = re.compile(r'\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]*)"')
# Instructions that neither compute nor touch memory: they move values between registers, or set up a function.
_MOVES = ("mov", "vmov", "push", "pop", "nop", "vzeroupper", "xchg", "cltq", "cqto", "kmov", "ud2", "endbr", "leave")
# Instructions that read their last operand, and write nothing there.
READING = ("cmp", "test", "vptest", "vucomis", "ucomis", "vcomis", "bt")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of assembly that is shown: a label or an instruction.

    Attributes:
        text: without directives and comments; functions have the name that the source gives them.
        line: its line (1-based) of the generated source; None where LLVM names none, or a line of another file.
        kind: as `Line.kind`; empty for a label.
    """

    text: str
    line: int | None
    kind: str


def read_assembly(text: str, file: str) -> list[Instruction]:
    """Return the labels and instructions of an assembly; lines of other files than `file` are not named."""
    numbers = {number for number, name in _FILE.findall(text) if name == file}
    found: list[Instruction] = []
    line: int | None = None
    for raw in text.splitlines():
        shown = _strip(raw)
        if location := _LOCATION.match(shown):
            number, at = location.groups()
            line = int(at) if number in numbers and at != "0" else None
        elif shown.endswith(":"):
            if not _MARK.match(shown):
                line = line if shown.startswith(".L") else None
                found.append(Instruction(shown, None, ""))
        elif shown and not shown.startswith((".", "#")):
            mnemonic, _, operands = shown.partition("\t")
            kind = kind_of(mnemonic, operands)
            if line is None and kind in ("load", "store") and "(%rsp" in operands and mnemonic.startswith(_MOVES):
                kind = "spill"
            found.append(Instruction(f"{mnemonic} {operands}".strip(), line, kind))
    return found


def normal_form(text: str) -> list[str]:
    """Return the lines of an assembly that decide its bytes: labels, instructions, alignment and constants.

    They are the same in every process, with and without lines of the source.
    """
    lines = (" ".join(_NUMBA_TAGS.sub("", _strip(raw)).split()) for raw in text.splitlines())
    return [line for line in lines if line and _decides_bytes(line)]


def _decides_bytes(line: str) -> bool:
    if line.endswith(":"):
        return not _MARK.match(line)
    return bool(_MAKES_BYTES.match(line)) or not line.startswith((".", "#"))


def _strip(line: str) -> str:
    """Return a line without its comment, with functions as in the source."""
    return short_names(re.sub(r"\s+#.*$", "", line)).strip()


def short_names(text: str) -> str:
    """Replace Numba's mangled names of a kernel's functions by the names in the source."""
    return _MANGLED.sub(lambda match: match[2][: int(match[1])], text)


def operands_of(text: str) -> list[str]:
    """Return the operands of an instruction; if it writes one, that is the last."""
    return [operand.strip() for operand in re.split(r",(?![^(]*\))", text)]


def kind_of(mnemonic: str, operands: str) -> str:
    """Return the kind of an instruction: `load`, `store`, `prefetch`, `arithmetic`, `branch`, `call` or `other`.

    An instruction that computes with memory counts as a load or a store.
    """
    if mnemonic.startswith("prefetch"):
        return "prefetch"
    if mnemonic.startswith(("j", "ret", "loop")):
        return "branch"
    if mnemonic.startswith("call"):
        return "call"
    last = operands_of(operands)[-1]
    if "(" in operands and not mnemonic.startswith(("lea", "nop")):
        return "store" if "(" in last and not mnemonic.startswith(READING) else "load"
    return "other" if mnemonic.startswith(_MOVES) else "arithmetic"


# LLVM IR

_NODE = re.compile(r"^!(\d+) = (?:distinct )?!(\w+)\((.*)\)$", re.MULTILINE)
_DEBUG = re.compile(r",? !dbg !(\d+)")


def read_llvm(text: str, file: str) -> list[tuple[str, int | None]]:
    """Return the lines of a module's functions, without metadata, each with its line (1-based) of `file`, or None."""
    nodes = {number: (kind, fields) for number, kind, fields in _NODE.findall(text)}
    lines: list[tuple[str, int | None]] = []
    for function in re.findall(r"^define .*?^}$", text, re.MULTILINE | re.DOTALL):
        for raw in function.splitlines():
            named = _DEBUG.search(raw)
            line = _line(named[1], nodes, file) if named else None
            lines.append((short_names(_DEBUG.sub("", raw)), line))
        lines.append(("", None))
    return lines


def _line(number: str, nodes: dict[str, tuple[str, str]], file: str) -> int | None:
    """Return the line of a location or a function, or of the call that it was inlined at, in a file."""
    while number in nodes:
        _, fields = nodes[number]
        line = re.search(r"\bline: (\d+)", fields)
        if line and line[1] != "0" and _file(number, nodes) == file:
            return int(line[1])
        inlined = re.search(r"\binlinedAt: !(\d+)", fields)
        if inlined is None:
            return None
        number = inlined[1]
    return None


def _file(number: str, nodes: dict[str, tuple[str, str]]) -> str | None:
    """Return the file of a location or a scope."""
    while number in nodes:
        kind, fields = nodes[number]
        if kind == "DIFile":
            name = re.search(r'filename: "([^"]*)"', fields)
            return name[1] if name else None
        parent = re.search(r"\bfile: !(\d+)", fields) or re.search(r"\bscope: !(\d+)", fields)
        if parent is None:
            return None
        number = parent[1]
    return None


# Basic blocks and loops

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
    """Return the basic blocks, each linked with the blocks of its function that may come next."""
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
    """Return the dominators of each block: the blocks on every path from the start of its function, and itself."""
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
    """Return the blocks from which the tail of a back edge can be reached without passing its header."""
    body, waiting = {header, tail}, [tail]
    while waiting:
        block = waiting.pop()
        if block != header:
            new = [other for other in blocks[block].preceding if other not in body]
            body.update(new)
            waiting += new
    return body


# The loop of the nest that a loop of the assembly was made from

# A loop of the generated source, with its name in the nest.
LOOP = re.compile(r"\s*for .*:  # (.+)")


def loop_around(source: Sequence[str], came: Sequence[int]) -> tuple[str, int]:
    """Return the loop of the nest that a loop of the assembly was made from, and its indentation.

    The instructions that count and test come from the line of the loop itself, so it is the outermost loop whose own
    line is among the lines: LLVM may have unrolled loops inside. Where LLVM has dropped these instructions, it is the
    loop that most lines stand in.

    Args:
        source: the lines of the generated source.
        came: the lines (from 1) of its instructions, without the loops inside it.

    Returns:
        The name and the indentation; an empty name and 0 where the lines stand in no loop.
    """
    around = {number: list(_loops_around(source, number)) for number in set(came)}
    own = [number for number, loops in around.items() if number in loops]
    if own:
        chosen = min(own, key=lambda number: (_depth(source[number - 1]), number))
    else:
        innermost = [around[number][0] for number in came if around[number]]
        chosen = max(innermost, key=innermost.count, default=0)
    found = LOOP.match(source[chosen - 1]) if chosen else None
    return ("", 0) if found is None else (found[1], _depth(source[chosen - 1]))


def _loops_around(source: Sequence[str], number: int) -> Iterator[int]:
    """Yield the lines of the named loops that a line stands in, the innermost first; a loop stands in itself."""
    depth = _depth(source[number - 1]) + 1
    for at in range(number, 0, -1):
        line = source[at - 1]
        if line.strip() and _depth(line) < depth:
            depth = _depth(line)
            if LOOP.match(line) is not None:
                yield at


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


# The uses of registers

_REGISTER = re.compile(r"%(\w+)")
# A name of the generated source.
_NAME = re.compile(r"[a-z]\w*")
_FLAGS = "flags"
_USES_FLAGS = re.compile(r"(j(?!mp)|cmov|set|adc|sbb)")


def inferred_lines(instructions: Sequence[Instruction]) -> list[tuple[int, ...]]:
    """Return the source lines of each instruction.

    LLVM names one line, or none where an optimisation made an instruction that serves several. Such an instruction gets
    the lines of the instructions that use its result, on every path up to the next write of its register.
    """
    found: list[tuple[int, ...]] = [() if at.line is None else (at.line,) for at in instructions]
    blocks, uses = blocks_of(instructions), [_registers(instruction) for instruction in instructions]
    for _ in range(2):  # the second time finds uses behind a back edge
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
    """Return the source lines of each instruction; folded loads get lines by their addresses.

    A load that LLVM folds into a vector has no line of its own, and its users have the line of the store behind it. Its
    address has the position that another instruction computes, in its block or in a block before it; the line of that
    instruction leads to the load through the source. A load that is folded into arithmetic has the line of the
    arithmetic, which leads back to the load of its operand.

    Args:
        instructions: the assembly.
        found: the lines of each, from 1, as `inferred_lines` returns them.
        source: the lines of the generated source.
    """
    lines = list(found)
    blocks, uses = blocks_of(instructions), [_registers(instruction) for instruction in instructions]
    for block in blocks:
        writers: dict[str, int] = {}
        for number in block.lines:
            at = instructions[number]
            if at.kind == "load" and not any(is_access(source[line - 1], "load") for line in lines[number]):
                names = [_whole(name) for name in _REGISTER.findall(at.text.partition("(")[2].partition(")")[0])]
                known = {line for name in names if name in writers for line in lines[writers[name]]}
                before = (at for name in names if name not in writers for at in _writers(name, block, blocks, uses))
                lines[number] = (
                    tuple(_loads_by(known, source))
                    or tuple(_loads_by(known.union(*(lines[at] for at in before)), source))
                    or (*_loads_of(lines[number], source), *lines[number])
                )
            if (written := uses[number][1]) is not None:
                writers[written] = number
    return lines


def _writers(
    register: str, block: Block, blocks: Sequence[Block], uses: Sequence[tuple[frozenset[str], str | None]]
) -> Iterator[int]:
    """Yield the last instruction that writes a register on each path to a block."""
    waiting, reached = list(block.preceding), set[int]()
    while waiting:
        at = waiting.pop()
        reached.add(at)
        writer = next((number for number in reversed(blocks[at].lines) if uses[number][1] == register), None)
        if writer is None:
            waiting += [other for other in blocks[at].preceding if other not in reached]
        else:
            yield writer


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
    """Return the loads of the source whose values some lines, from 1, use, directly or through one line between."""
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
    """Yield the instructions that read a register before it is written again, in the rest of a block and after it."""
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
    """Return the registers that an instruction reads and the register that it writes; the flags are a register, too."""
    if not instruction.kind:
        return frozenset(), None
    mnemonic, _, rest = instruction.text.partition(" ")
    operands = operands_of(rest)
    read = {_whole(name) for operand in operands[:-1] for name in _REGISTER.findall(operand)}
    last = operands[-1]
    is_register = bool(re.fullmatch(r"%\w+", last))
    if mnemonic.startswith(READING) or instruction.kind in ("branch", "call") or not is_register:
        read |= {_whole(name) for name in _REGISTER.findall(last)}
        written = _FLAGS if mnemonic.startswith(READING) else None
    else:
        written = _whole(last[1:])
        if len(operands) < 3 and not mnemonic.startswith(("mov", "vmov", "lea", "vpbroadcast", "vbroadcast")):
            read.add(written)  # two operands: the second is read, too
    if _USES_FLAGS.match(mnemonic):
        read.add(_FLAGS)
    return frozenset(read), written


def _whole(name: str) -> str:
    """Return the name of the whole register of which a name is a part: `rax` for `eax`, `zmm1` for `xmm1`."""
    if match := re.fullmatch(r"[xyz]mm(\d+)", name):
        return f"zmm{match[1]}"
    if match := re.fullmatch(r"(r\d+)[dwb]?", name):
        return match[1]
    if match := re.fullmatch(r"[re]?([abcd])[xlh]", name):
        return f"r{match[1]}x"
    if match := re.fullmatch(r"[re]?(si|di|bp|sp)l?", name):
        return f"r{match[1]}"
    return name
