"""The figures of the pages, the same on every machine: schedules, sizes and indices are given here."""

import io
from pathlib import Path

import numpy as np
from chunk_figures import gather_figure, gradient_figure
from rich.console import Console

from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.playground.drawings import access_drawing, add, drawing, finished, nest_drawing, standalone, width_of
from gathernest.playground.script import schedule
from gathernest.tools.tracking.causes import Finding
from gathernest.tools.tracking.report import Comparison, print_comparison
from gathernest.tools.tracking.sampling import Series
from gathernest.tools.tracking.sides import Side

ROWS = "tile-loops{loops=indices sizes=3},parallelize-loops{loops=indices_o}"
BAGS = "tile-loops{loops=indices sizes=2},parallelize-loops{loops=indices_o}"
TILES = (
    "tile-loops{loops=outer,indices sizes=2,8},interchange-loops{order=outer_o,indices_o,outer_i,indices_i},"
    "parallelize-loops{loops=outer_o,indices_o}"
)


def figures() -> dict[str, str]:
    """Return each figure as the text of an SVG file, by its path below docs."""
    script = schedule("gather", "16x4000x64xf32", "6000xi64", axis=1, bounds="wrap")
    before = nest_drawing(script.ir, title="A nest before its schedule")
    tiles, indices = script.tile("indices", 256)
    script.interchange(tiles, "outer").parallel(tiles)
    script.stage_indices("outer").vectorize("inner", 8).prefetch(indices, ahead=8, lines=4)
    rows = _plan("gather", "16x24xf32", "12xi64", 0, ROWS)
    columns = _plan("gather", "4x96xf32", "32xi64", 1, TILES)
    bags = np.array([[9, 2, 14], [2, 7, 0], [11, 5, 5], [13, 1, 9], [3, 3, 8], [15, 4, 6], [0, 12, 10], [7, 7, 7]])
    drawings = {
        "compare": compare_figure(),
        "chunks_gather": gather_figure(),
        "chunks_gradient": gradient_figure(),
        "nest_before": before,
        "nest_after": nest_drawing(script.ir, title="The nest after its schedule"),
        "accesses_rows": access_drawing(
            rows, np.array([9, 2, 14, 2, 7, 0, 11, 5, 5, 13, 1, 9]), title="Rows of data that a gather reads"
        ),
        "accesses_elements": access_drawing(
            columns, np.arange(32) * 37 % 96, title="Elements that a gather along the last axis reads"
        ),
        "accesses_bags": access_drawing(
            _plan("gather_reduce", "16x24xf32", "8x3xi64", 0, BAGS), bags, title="Rows of data that bags sum"
        ),
    }
    return {f"images/{name}.svg": standalone(svg) for name, svg in drawings.items()}


WITHOUT_PREFETCHES = """\
  loop copy_tile indices_i (innermost): instructions 67 → 15, prefetches 4 → 0
     .L1:
    -movq (%r9,%rbx,8), %rbx
    -shlq $4, %rbx
    -prefetcht0 (%rcx,%rbx)
     movq (%r9,%r14,8), %rbx"""
# Names, ratios in four restarts, times in nanoseconds, and the verdicts with their intervals.
COMPARED = (
    ("rows-16B", (1.13, 1.15, 1.14, 1.18), 8.56e6, "slower", 1.103, 1.201),
    ("pipeline", (0.99, 1.0, 0.99, 1.01), 27.6e6, "same", 0.979, 1.016),
    ("scalars-16KB-table", (1.0, 0.99, 1.0, 1.01), 62.3e3, "same", 0.972, 1.021),
)
LINE = 17.0  # pixels from one line of a terminal to the next
COLOURS = {"-": "#e5534b", "+": "#2da44e", "r": "#e5534b"}


def compare_figure() -> str:
    """Return the text of a comparison on a terminal of 80 columns, where a pass lost its prefetches."""
    base, head = (
        Side(name, revision, "5f0c91d2ab", changed, Path(), "")
        for name, revision, changed in (("base", "HEAD", 0), ("head", "the working tree", 1))
    )
    series = [
        Series(name, 0.03, list(np.log(ratios)), [time_ns], verdict, low, high)
        for name, ratios, time_ns, verdict, low, high in COMPARED
    ]
    why = Finding(
        "the first stage that differs is that of prefetch", tuple(WITHOUT_PREFETCHES.splitlines()), is_code=True
    )
    machine = "Intel Xeon, family 6 model 207, 2 cores"
    console = Console(file=io.StringIO(), width=80, color_system=None, markup=False, soft_wrap=True)
    print_comparison(Comparison((base, head), series, {}, 24, 1, machine, why={"rows-16B": why}), console)
    lines = ["$ gathernest bench compare HEAD --case rows-16B,pipeline,scalars-16KB-table", ""]
    lines += console.file.getvalue().splitlines()
    root = drawing("terminal", "A comparison of two revisions", "One benchmark is slower: a pass makes no prefetches.")
    for number, line in enumerate(lines):
        colour = (
            COLOURS.get(line.strip()[:1]) if line.startswith("      ") else COLOURS["r"] if "slower " in line else None
        )
        text = line.rstrip().replace(" ", "\N{NO-BREAK SPACE}")
        add(root, "text", text, x=LINE, y=LINE * (number + 2), fill=colour)
    return finished(root, width_of("m" * 84), LINE * (len(lines) + 3))


def _plan(operator: str, data: str, indices: str, axis: int, text: str) -> Plan:
    return make_plan(problem_of(operator, data, indices, axis, bounds="wrap"), Schedule.parse(text))
