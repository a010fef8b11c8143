"""The differences between two static reports, the first stage that explains each, and lines for a person."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from .kernel_facts import KernelFacts, LoopFacts, StaticReport

# A register, or a place of the stack.
_PLACE = re.compile(r"(-?\d+)?(?=\(%rsp)|%\w+")

Kind = Literal["new", "gone", "operator", "schedule", "pass", "source", "assembly", "loops"]


@dataclass(frozen=True, slots=True)
class Change:
    """A kernel that differs.

    Attributes:
        cases: the cases that it serves, on both sides.
        kind: the first difference. `new` and `gone` where only one side has the case; `loops` where only the reading of
            the same assembly differs.
        what: the pass with its options where `kind` is `pass`; the first step of the schedule that differs, before and
            after, where it is `schedule`; else empty.
        before, after: both sides.
    """

    cases: tuple[str, ...]
    kind: Kind
    what: str
    before: KernelFacts | None
    after: KernelFacts | None

    @property
    def same_code(self) -> bool:
        """Whether schedule and assembly are the same, so that it cannot run slower or faster."""
        return self.before is not None and self.after is not None and self.before.identity == self.after.identity

    @property
    def loops(self) -> "list[LoopChange]":
        """The loops that differ."""
        if self.before is None or self.after is None:
            return []
        old, new = ({loop.name: loop for loop in side.loops} for side in (self.before, self.after))
        pairs = [(old.get(name), new.get(name)) for name in dict.fromkeys([*old, *new])]
        return [LoopChange.between(*pair) for pair in pairs if pair[0] != pair[1]]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        loops = [{"name": loop.loop.name, "counts": loop.counts, "diff": loop.diff} for loop in self.loops]
        facts = {"cases": list(self.cases), "kind": self.kind, "what": self.what, "same_code": self.same_code}
        return {**facts, "loops": loops}


@dataclass(frozen=True, slots=True)
class LoopChange:
    """A loop that differs.

    Attributes:
        loop: the loop of the second side, or of the first where only that has it.
        missing: "new" or "gone" where only one side has it.
        counts: the counts that differ, before and after.
        diff: the instructions as a unified diff without headings.
        is_moved: whether the same instructions use other registers and places of the stack.
    """

    loop: LoopFacts
    missing: str
    counts: dict[str, tuple[int, int]]
    diff: list[str]
    is_moved: bool

    @classmethod
    def between(cls, before: LoopFacts | None, after: LoopFacts | None) -> "LoopChange":
        """Return the change from a loop to another; None where a side has none."""
        loop = after or before
        assert loop is not None
        codes: list[Sequence[str]] = [() if side is None else side.code for side in (before, after)]
        lines = difflib.unified_diff(codes[0], codes[1], lineterm="", n=2)
        diff = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
        if before is None or after is None:
            return cls(loop, "new" if before is None else "gone", {}, diff, False)
        counts = {name: (before.counts[name], count) for name, count in after.counts.items()}
        counts = {name: both for name, both in counts.items() if both[0] != both[1]}
        old, new = ([_PLACE.sub("", text) for text in code] for code in codes)
        return cls(loop, "", counts, diff, not counts and old == new)

    def lines(self, most: int) -> Iterator[str]:
        """Yield the lines for a person, with at most `most` lines of the diff."""
        named = f"  loop {self.loop.name} ({'innermost' if self.loop.is_hot else f'depth {self.loop.depth}'})"
        if self.is_moved:
            yield f"{named}: the same instructions with other registers"
            return
        counts = ", ".join(f"{name} {old} → {new}" for name, (old, new) in self.counts.items())
        yield f"{named} is {self.missing}" if self.missing else f"{named}: {counts or 'the same counts'}"
        yield from (f"    {line}" for line in self.diff[:most])
        if len(self.diff) > most:
            yield f"    … {len(self.diff) - most} more lines"


def differences(before: StaticReport, after: StaticReport, *, whole: bool = True) -> list[Change]:
    """Return the kernels that differ, in the order of the cases.

    Args:
        before, after: the reports.
        whole: whether `after` is of the whole suite, so that a case which only `before` has is gone.
    """
    pairs: dict[tuple[KernelFacts | None, KernelFacts | None], list[str]] = {}
    gone = [case for case in before.kernels if case not in after.kernels] if whole else []
    for case in [*after.kernels, *gone]:
        pairs.setdefault((before.kernels.get(case), after.kernels.get(case)), []).append(case)
    return [_change(tuple(cases), *pair) for pair, cases in pairs.items() if pair[0] != pair[1]]


def _change(cases: tuple[str, ...], before: KernelFacts | None, after: KernelFacts | None) -> Change:
    if before is None or after is None:
        return Change(cases, "new" if before is None else "gone", "", before, after)
    kind, what = _cause(before, after)
    return Change(cases, kind, what, before, after)


def _cause(before: KernelFacts, after: KernelFacts) -> tuple[Kind, str]:
    """Return the first difference on the way from the operator to the assembly."""
    for old, new in zip_longest(before.stages, after.stages):
        if old is None or new is None or old[0] != new[0]:
            return "schedule", f"{'nothing' if old is None else old[0]} → {'nothing' if new is None else new[0]}"
        if old != new:
            return ("operator", "") if new is after.stages[0] else ("pass", new[0])
    if before.source != after.source:
        return "source", ""
    return ("assembly" if before.assembly != after.assembly else "loops"), ""


# The most kernels of a cause with their loops, loops of a kernel, lines of a loop, and named kernels of a cause.
MOST_KERNELS, MOST_LOOPS, MOST_LINES, MOST_NAMED = 1, 4, 40, 6

_CAUSES = {
    "new": "has no kernel there",
    "gone": "is no longer in the suite",
    "operator": "the operator's module differs, before any pass",
    "source": "every stage is the same, and the generated source differs: lowering/numba/emitter.py",
    "assembly": "every stage and the source are the same, and the assembly differs: Numba or LLVM, or the "
    "intrinsics and flags of lowering/numba and lowering/native",
    "loops": "the assembly is the same, and its loops are read in another way: lowering/provenance",
}


def explained(
    changes: Sequence[Change], before: Mapping[str, str], after: Mapping[str, str], *, in_full: bool = False
) -> Iterator[str]:
    """Yield the lines that explain changes: causes with their kernels, each with the loops of its first kernel.

    Args:
        changes: the kernels that differ.
        before, after: the versions that made both sides.
        in_full: whether to show every kernel, loop and line.
    """
    versions = version_change(before, after)
    if changes and versions:
        yield f"other versions made them, which may explain all of it: {versions}"
    causes: dict[str, list[Change]] = {}
    for change in changes:
        causes.setdefault(_cause_text(change), []).append(change)
    for cause, alike in causes.items():
        names = [change.cases[0] for change in alike]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        yield f"{cause}: {', '.join(names[:MOST_NAMED])}{more}"
    for alike in causes.values():
        both = [change for change in alike if change.before and change.after]
        for change in both if in_full else both[:MOST_KERNELS]:
            yield ""
            yield from _kernel(change, in_full=in_full)


def version_change(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the packages whose versions differ, such as "numba 0.68.1 → 0.69.0"; empty where none does."""
    names = dict.fromkeys([*before, *after])
    differ = [name for name in names if before.get(name) != after.get(name)]
    return ", ".join(f"{name} {before.get(name, 'none')} → {after.get(name, 'none')}" for name in differ)


def _cause_text(change: Change) -> str:
    """Return the first difference, without differences between kernels of the same cause."""
    if change.kind == "pass":
        return f"the first stage that differs is that of {change.what.partition('{')[0]}"
    if change.kind == "schedule":
        assert change.before is not None and change.after is not None
        return "another schedule is chosen" if change.before.schedule != change.after.schedule else "another pipeline"
    return _CAUSES[change.kind]


def _kernel(change: Change, *, in_full: bool) -> Iterator[str]:
    what = f" ({change.what})" if change.what else ""
    yield f"{', '.join(change.cases)}: {_cause_text(change)}{what}"
    if change.same_code:
        yield "  schedule and machine code are the same, so it runs as before"
        return
    # The order is innermost loops, loops that count differently, loops that only moved.
    loops = sorted(change.loops, key=lambda loop: (loop.is_moved, not loop.loop.is_hot, not loop.counts))
    if not loops:
        yield "  no loop differs: the code around them does"
    for loop in loops if in_full else loops[:MOST_LOOPS]:
        yield from loop.lines(10**6 if in_full else MOST_LINES)
    if len(loops) > MOST_LOOPS and not in_full:
        yield f"  and {len(loops) - MOST_LOOPS} more loops; --case {change.cases[0]} shows all"
