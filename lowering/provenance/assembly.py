"""x86-64 assembly as lines: the source line and the kind of each instruction. Plain text, no compiler."""

import re
from dataclasses import dataclass

_MANGLED = re.compile(r"_ZN\d+gathernest_kernel(?:_inspected)?(\d+)(\w+)")
_LOCATION = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
# Labels that mark positions for the debugger, not for a jump.
_MARK = re.compile(r"\.L(tmp|func|cfi|debug|info|sec|str|line|addr)")
# Directives that decide which bytes are made: alignment, constants, and the sections that constants lie in.
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
        shown = _shown(raw)
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

    It is the same in every process, with and without lines of the source.
    """
    lines = (" ".join(_NUMBA_TAGS.sub("", _shown(raw)).split()) for raw in text.splitlines())
    return [line for line in lines if line and _decides_bytes(line)]


def _decides_bytes(line: str) -> bool:
    if line.endswith(":"):
        return not _MARK.match(line)
    return bool(_MAKES_BYTES.match(line)) or not line.startswith((".", "#"))


def _shown(line: str) -> str:
    """Return a line without its comment, with functions as in the source."""
    return short_names(re.sub(r"\s+#.*$", "", line)).strip()


def short_names(text: str) -> str:
    """Return text with Numba's mangled names of a kernel's functions as the names in its source."""
    return _MANGLED.sub(lambda match: match[2][: int(match[1])], text)


def operands_of(text: str) -> list[str]:
    """Return the operands of an instruction; the last is what it writes, if it writes one."""
    return [operand.strip() for operand in re.split(r",(?![^(]*\))", text)]


def kind_of(mnemonic: str, operands: str) -> str:
    """Return what an instruction does: `load`, `store`, `prefetch`, `arithmetic`, `branch`, `call` or `other`.

    One that computes with memory counts by its access to memory.
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
