"""The figures of the pages, the same on every machine: schedules, sizes and indices are given here."""

import numpy as np
from chunk_figures import gather_figure, gradient_figure

from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.playground.drawings import access_drawing, nest_drawing, standalone
from gathernest.playground.script import schedule

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


def _plan(operator: str, data: str, indices: str, axis: int, text: str) -> Plan:
    return make_plan(problem_of(operator, data, indices, axis, bounds="wrap"), Schedule.parse(text))
