"""Which loop of the generated source a loop of the assembly is. Plain text, no compiler."""

import re
from collections.abc import Iterator, Sequence

# A loop of the generated source, with its name in the nest.
LOOP = re.compile(r"\s*for .*:  # (.+)")


def loop_around(source: Sequence[str], came: Sequence[int]) -> tuple[str, int]:
    """Return the loop of the nest that a loop of the assembly is, and its indentation.

    What counts and tests comes from the line of the loop itself, so it is the outermost whose own line is among the
    lines: LLVM may have unrolled those inside. Where it has dropped that, it is the one that most lines stand in.

    Args:
        source: the lines of the generated source.
        came: the lines (from 1) that its instructions came from, those of loops inside it aside.

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
