"""The levels of a lowering, and the origin of each line in the level before. Plain values."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ...ir.loop_name import LoopName

# The kinds of instructions that are work of a loop; the others branch, or move values between registers.
WORK = ("load", "store", "prefetch", "arithmetic")
# The accesses of a line of generated source, by kind.
_ACCESSES = {
    "load": re.compile(r"\b(?:load|reload|gather\w*)_v?i?\d\w*\((\w*)"),
    "store": re.compile(r"\b(?:store|stream|compress\w*)_v?i?\d\w*\((\w*)"),
    "prefetch": re.compile(r"\bprefetch_\d\((\w*)"),
}
# The base of a memory operand: its first register, and the second where it is not scaled, as either may be the base.
_BASE = re.compile(r"\(%(\w+)(?:,%(\w+)(?=\)))?")
# An instruction that writes a register, and those that move a base from element to element.
_WRITTEN, _MOVES_BASE = re.compile(r"(\w+) .*?%(\w+)$"), ("add", "sub", "inc", "dec", "cmp", "test")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a level's text.

    Attributes:
        text: without its end.
        origins: numbers (from 0) of the lines of the level `Level.origin` that it came from, in order.
        kind: of an instruction: `load`, `store`, `prefetch`, `arithmetic`, `branch`, `call`, `spill` (between a
            register and the stack) or `other`; else empty.
    """

    text: str
    origins: tuple[int, ...] = ()
    kind: str = ""


@dataclass(frozen=True, slots=True)
class MachineLoop:
    """A loop of the assembly.

    Attributes:
        lines: numbers (from 0) of its lines, including the loops in it. Other lines may lie between them.
        depth: 1 is outermost.
        is_hot: whether it is innermost, and reads or writes memory; several loops can be hot, such as the check of
            indices, the copy, and its remainder.
        name: the loop of the nest; empty where it is not known.
        nest_depth: the indentation of the loop of the nest in the generated source; 0 where it is not known.
    """

    lines: tuple[int, ...]
    depth: int
    is_hot: bool
    name: str = ""
    nest_depth: int = 0

    @property
    def first(self) -> int:
        """The number of its first line."""
        return self.lines[0]

    @property
    def last(self) -> int:
        """The number of its last line."""
        return self.lines[-1]


@dataclass(frozen=True, slots=True)
class Level:
    """The gather at one level: a stage of the pipeline, the generated source, the LLVM IR or the assembly.

    Attributes:
        name: the pass with its options, `operator` for the module as it came; `source`, `LLVM IR` or `assembly`.
        lines: its text.
        origin: number (from 0) of the level that its lines came from; None for the first. LLVM IR and assembly both
            came from the source.
        is_changed: whether its text differs from the text of its origin.
        milliseconds: the time of the pass; 0 where the level is no stage of a pass.
        op_count: operations in the module; 0 where the level is no module.
        loops: the loops of the assembly.
    """

    name: str
    kind: Literal["stage", "source", "llvm", "assembly"]
    lines: tuple[Line, ...]
    origin: int | None
    is_changed: bool = True
    milliseconds: float = 0.0
    op_count: int = 0
    loops: tuple[MachineLoop, ...] = ()

    @property
    def text(self) -> str:
        """Its text as a whole."""
        return "".join(f"{line.text}\n" for line in self.lines)

    @property
    def hot_loops(self) -> list[MachineLoop]:
        """The hot loops, hottest first.

        Loops that call a function are last. The others are sorted by their depth in the nest, deepest first, with
        remainders and prologues after other loops, and then by their number of loads, stores and prefetches.
        """

        def rank(loop: MachineLoop) -> tuple[bool, int, bool, int]:
            kinds = [self.lines[number].kind for number in loop.lines]
            accesses = sum(kind in ("load", "store", "prefetch") for kind in kinds)
            name = LoopName(loop.name)
            is_edge = name.is_remainder or name.endswith("_head")
            return "call" in kinds, -loop.nest_depth, is_edge, -accesses

        return sorted((loop for loop in self.loops if loop.is_hot), key=rank)


@dataclass(frozen=True, slots=True)
class Trace:
    """Every level of one lowering.

    Attributes:
        levels: from the operator to the assembly.
        same_code: whether LLVM makes the same instructions with debug locations as without.
    """

    levels: tuple[Level, ...]
    same_code: bool

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Trace":
        """Return the trace that `to_json` stored; raises KeyError or TypeError for any other value."""
        levels = []
        for level in stored["levels"]:
            lines = tuple(Line(line["text"], tuple(line["origins"]), line["kind"]) for line in level["lines"])
            loops = tuple(MachineLoop(**loop | {"lines": tuple(loop["lines"])}) for loop in level["loops"])
            levels.append(Level(**level | {"lines": lines, "loops": loops}))
        return cls(tuple(levels), stored["same_code"])

    def roots(self, level: int, line: int) -> frozenset[int]:
        """Return the lines of the first level that a line of a level came from."""
        origin, lines = self.levels[level].origin, frozenset({line})
        while origin is not None:
            lines = frozenset(number for at in lines for number in self.levels[level].lines[at].origins)
            level, origin = origin, self.levels[origin].origin
        return lines

    @property
    def has_provenance(self) -> bool:
        """Whether lines name their origins."""
        return any(line.origins for level in self.levels for line in level.lines)

    @property
    def mapped(self) -> tuple[int, int]:
        """The number of lines of work in hot loops that map to the operator rightly, and the number of all such lines.

        Work is loads, stores, prefetches and arithmetic, without arguments and saved registers on the stack. A line
        maps rightly if the operator is its root; the origin of a load, store or prefetch must also have that kind of
        access, to the same array as most accesses of the loop with the same base register.
        """
        number = len(self.levels) - 1
        assembly = self.levels[number]
        source = self.levels[assembly.origin].lines if assembly.origin is not None else ()
        hot = {line for loop in assembly.loops if loop.is_hot for line in loop.lines}
        work = [at for at in sorted(hot) if assembly.lines[at].kind in WORK and not _is_frame(assembly.lines[at].text)]
        arrays = {line: _arrays(assembly.lines[line], source) for line in work}
        usual = _usual_arrays(assembly, arrays)

        def is_right(line: int) -> bool:
            return assembly.lines[line].kind == "arithmetic" or (
                bool(arrays[line]) and usual.get(line) in (None, *arrays[line])
            )

        return sum(1 for line in work if self.roots(number, line) and is_right(line)), len(work)


def _arrays(line: Line, source: Sequence[Line]) -> set[str]:
    """Return the arrays that the lines of the source access from which a line of assembly came, by its kind of access.

    Elements of an array that are not named have the empty name.
    """
    pattern = _ACCESSES.get(line.kind)
    names = {name for at in line.origins for name in pattern.findall(source[at].text)} if pattern is not None else set()
    return {re.sub(r"_at(_\d+)?$", "", name) for name in names}  # `data_at` is the address of a row of data


def _usual_arrays(assembly: Level, arrays: Mapping[int, set[str]]) -> dict[int, str]:
    """Return the array of most accesses with the same base register, for each access with a base that a loop keeps."""
    usual: dict[int, str] = {}
    for loop in assembly.hot_loops:
        texts = {at: assembly.lines[at].text for at in loop.lines}
        written = [match for text in texts.values() if (match := _WRITTEN.match(text))]
        computed = {_whole_register(match[2]) for match in written if not match[1].startswith(_MOVES_BASE)}
        by_base: dict[tuple[str, ...], list[int]] = {}
        for at, text in texts.items():
            registers = match.groups("") if (match := _BASE.search(text)) else ()
            base = tuple(name for name in registers if name and name not in computed)
            if base and arrays.get(at):
                by_base.setdefault(base, []).append(at)
        for lines in by_base.values():
            votes = Counter(name for at in lines for name in arrays[at])
            usual |= dict.fromkeys(lines, votes.most_common(1)[0][0])
    return usual


def _whole_register(name: str) -> str:
    """Return the name of the 64 bits of a register: `rax` of `eax`, `r9` of `r9d`."""
    return name.rstrip("dwb") if name[1:2].isdigit() else re.sub(r"^e(?=[a-z]{2}$)", "r", name)


def is_access(source: str, kind: str) -> bool:
    """Return whether a line of generated source loads, stores or prefetches."""
    return _ACCESSES[kind].search(source) is not None


def _is_frame(instruction: str) -> bool:
    """Return whether an instruction moves a value between a register and its place on the stack."""
    return "(%rsp)" in instruction or instruction.startswith(("push", "pop"))
