"""A static report for the terminal: each kernel with its schedule, and a table of its innermost loops."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ....ir.loop_name import LoopName
from .cycles import Cycles
from .kernel_facts import LoopFacts
from .report import StaticReport

if TYPE_CHECKING:
    from rich.console import Console

_HEADINGS = ("vector", "instr", "loads", "stores", "nt", "prefetch", "spills", "calls", "branches")
_CYCLES = "cycles/element"
_NAME_WIDTH, _BYTES_WIDTH = 32, 7


def print_report(console: "Console", report: StaticReport, cycles: Mapping[tuple[str, ...], Cycles | None]) -> None:
    """Print every kernel of a report.

    Args:
        console: where.
        report: what.
        cycles: those of loops by their code; a loop that is not in it has none.
    """
    for kernel, cases in report.grouped():
        console.print(f"{cases[0]}  [{kernel.source} → {kernel.assembly}]", style="bold")
        if len(cases) > 1:
            console.print(f"  also {', '.join(cases[1:])}")
        console.print(f"  {kernel.schedule.replace('},', '}, ') or 'no schedule'}", style="dim")
        hot = [loop for loop in kernel.loops if loop.is_hot]
        table = _table(hot, report.bytes[cases[0]], cycles)
        console.print(table, soft_wrap=False, crop=False)
        console.print()


def _table(
    loops: Sequence[LoopFacts], streams: Mapping[str, int], cycles: Mapping[tuple[str, ...], Cycles | None]
) -> object:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    headings = {name: len(name) for name in _HEADINGS} | {"bytes": _BYTES_WIDTH}
    headings |= {_CYCLES: len(_CYCLES)} if cycles else {}
    table.add_column("  loop", min_width=_NAME_WIDTH)
    for heading, width in headings.items():
        table.add_column(heading, justify="right", min_width=width)
    for loop in loops:
        counts = [Text(str(count) if count else "·") for count in loop.counts.values()]
        row = [Text(f"  {loop.name}"), *counts, Text(_bytes(loop.name, streams))]
        if cycles:
            found = cycles.get(loop.code)
            row.append(Text("–" if found is None or found.an_element is None else f"{found.an_element:.2f}"))
        table.add_row(*row)
    return table


def _bytes(name: str, streams: Mapping[str, int]) -> str:
    """Return the bytes that the nest of a loop moves in a call, such as "25.6 MB"."""
    nest = LoopName(name.partition(" ")[2]).nest
    moved = {"check": ("indices",), "clear": ("output",), "scale": ("output",), "copy": ("output",)}.get(
        nest, tuple(streams)
    )
    number = float(sum(streams[stream] for stream in moved if stream in streams))
    for unit in ("B", "kB", "MB"):
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} GB"
