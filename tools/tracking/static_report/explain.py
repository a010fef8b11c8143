"""What differs between two static reports, as lines for a person: the pass, the loop and the assembly."""

from collections.abc import Iterator, Mapping, Sequence

from .compare import Change, LoopChange

# Of each cause, how many kernels are shown with their loops; loops of a kernel; lines of a loop.
MOST_KERNELS, MOST_LOOPS, MOST_LINES = 1, 4, 40
# Beside kernels of one cause, so many are named.
MOST_NAMED = 6

_CAUSES = {
    "new": "has no kernel there",
    "gone": "is no longer in the suite",
    "operator": "the operator's module differs, before any pass",
    "source": "every stage is the same, and the generated source differs: lowering/numba/emitter.py",
    "assembly": "every stage and the source are the same, and the assembly differs: Numba or LLVM, or the "
    "intrinsics and flags of lowering/numba and lowering/native",
    "bytes": "the kernel is the same, and the bytes of its roofline bound differ: kernels/machine/traffic.py",
    "loops": "the assembly is the same, and its loops are read in another way: lowering/provenance",
}


def explained(
    changes: Sequence[Change], before: Mapping[str, str], after: Mapping[str, str], *, in_full: bool = False
) -> Iterator[str]:
    """Yield the lines that explain changes: causes with their kernels, each with the loops of its first kernel.

    Args:
        changes: what differs.
        before, after: the versions that made both sides.
        in_full: whether to show every kernel, loop and line.
    """
    versions = version_change(before, after)
    if changes and versions:
        yield f"other versions made them, which may explain all of it: {versions}"
    causes: dict[str, list[Change]] = {}
    for change in changes:
        causes.setdefault(_cause(change), []).append(change)
    for cause, alike in causes.items():
        names = [change.cases[0] for change in alike]
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        yield f"{cause}: {', '.join(names[:MOST_NAMED])}{more}"
    for alike in causes.values():
        both = [change for change in alike if change.before and change.after]
        for change in both if in_full else sorted(both, key=_length)[:MOST_KERNELS]:
            yield ""
            yield from _kernel(change, in_full=in_full)


def version_change(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the packages whose versions differ, such as "numba 0.68.1 → 0.69.0"; empty where none does."""
    names = dict.fromkeys([*before, *after])
    differ = [name for name in names if before.get(name) != after.get(name)]
    return ", ".join(f"{name} {before.get(name, 'none')} → {after.get(name, 'none')}" for name in differ)


def _cause(change: Change) -> str:
    """Return what differs first, without what differs between kernels of the same cause."""
    if change.kind == "pass":
        return f"the first stage that differs is that of {change.what.partition('{')[0]}"
    if change.kind == "schedule":
        assert change.before is not None and change.after is not None
        return "another schedule is chosen" if change.before.schedule != change.after.schedule else "another pipeline"
    return _CAUSES[change.kind]


def _length(change: Change) -> tuple[int, int]:
    """Order kernels of one cause by how simply they show it: the same loops on both sides, few lines."""
    unpaired = sum(
        loop.before is None or loop.after is None or loop.before.is_hot != loop.after.is_hot for loop in change.loops
    )
    return unpaired, sum(len(loop.diff()) for loop in change.loops) or 10**6


def _kernel(change: Change, *, in_full: bool) -> Iterator[str]:
    what = f" ({change.what})" if change.what else ""
    yield f"{', '.join(change.cases)}: {_cause(change)}{what}"
    if change.same_code:
        yield "  schedule and machine code are the same, so it runs as before"
        return
    if not change.loops:
        yield "  no loop differs: the code around them does"
    ranked = sorted(change.loops, key=_rank)
    shown = ranked if in_full else ranked[:MOST_LOOPS]
    for loop in shown:
        yield from _loop(loop, 10**6 if in_full else MOST_LINES)
    if len(ranked) > len(shown):
        yield f"  and {len(ranked) - len(shown)} more loops; --case {change.cases[0]} shows all"


def _rank(change: LoopChange) -> tuple[bool, bool, bool]:
    """Order loops by what matters: innermost ones, those that count differently, those that only moved."""
    loop = change.after or change.before
    assert loop is not None
    return change.only_registers, not loop.is_hot, not change.counts


def _loop(change: LoopChange, most_lines: int) -> Iterator[str]:
    loop = change.after or change.before
    assert loop is not None
    kind = "innermost" if loop.is_hot else f"depth {loop.depth}"
    if change.before is None or change.after is None:
        yield f"  loop {change.name} ({kind}) is {'new' if change.before is None else 'gone'}"
    elif change.only_registers:
        yield f"  loop {change.name} ({kind}): the same instructions with other registers"
        return
    else:
        counts = ", ".join(f"{name} {old} → {new}" for name, (old, new) in change.counts.items())
        yield f"  loop {change.name} ({kind}): {counts or 'the same counts'}"
    lines = change.diff()
    yield from (f"    {line}" for line in lines[:most_lines])
    if len(lines) > most_lines:
        yield f"    … {len(lines) - most_lines} more lines"
