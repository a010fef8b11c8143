"""The time that `import gathernest` takes, in fresh processes of both sides in turn."""

import math
import subprocess
import sys
from collections.abc import Sequence

from ....kernels.host.checkout import RevisionError
from .sides import Side

LIMIT_S = 120
_PROGRAM = """
import time
start = time.perf_counter()
import gathernest
print(time.perf_counter() - start)
"""


def import_s(side: Side) -> float:
    """Return the seconds that the import takes in a fresh process; raises RevisionError where it fails."""
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        env=side.environment,
        cwd=side.folder,
    )
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
        raise RevisionError(f"revision {side.revision} cannot be imported: {reason}; name another one")
    return float(ended.stdout)


def log_ratios(sides: Sequence[Side], restarts: int) -> list[float]:
    """Return the logarithms of head's time divided by base's, of pairs of processes whose order alternates."""
    base, head = sides
    import_s(base), import_s(head)  # writes the byte code
    found: list[float] = []
    for number in range(restarts):
        order = (base, head) if number % 2 else (head, base)
        times = {side.name: import_s(side) for side in order}
        found.append(math.log(times["head"] / times["base"]))
    return found
