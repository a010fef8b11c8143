"""How long passes took, as the table of `mlir-opt --mlir-timing`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...lowering.pipeline import Stage

_RULE = f"==={'-' * 73}===\n"  # 79 columns, as in MLIR


def time_table(stages: Sequence["Stage"], total_seconds: float) -> str:
    """Return a row for each pass, for the rest (reading, verifying, printing) and for the whole."""
    rows = [(stage.name, stage.milliseconds / 1e3) for stage in stages[1:]]
    rows += [("Rest", total_seconds - sum(seconds for _, seconds in rows)), ("Total", total_seconds)]
    body = "".join(f"  {seconds:8.4f} ({seconds / total_seconds:6.1%})  {name}\n" for name, seconds in rows)
    title = f"{'... Execution time report ...':^79}".rstrip()
    return (
        f"{_RULE}{title}\n{_RULE}  Total Execution Time: {total_seconds:.4f} seconds\n\n"
        f"  ----Wall Time----  ----Name----\n{body}"
    )
