"""Loops of calls that adapt, beside the same calls that do not."""

import json

import pytest

import gathernest as gn
from gathernest.kernels.adapting import adapter as adapters
from gathernest.kernels.adapting import budget, call_class
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.tools.bench import adapting
from gathernest.tools.bench.adapting import Adapted, adapt, as_markdown
from gathernest.tools.bench.cases.case import Case

ROWS = Case("rows", "rows", (400, 64), (500,))
TILED = Schedule.parse("tile-loops{loops=indices sizes=3}")


@pytest.fixture
def at_once(monkeypatch):
    """Candidates race at once, without a budget."""
    for module, name, value in (
        *((budget, "SHARE", 1e9), (call_class, "LEAST_SPENT_S", 0.0), (call_class, "SHORTEST_S", 0.0)),
        (call_class, "WORST_FIRST", 1e5),
        *((adapting, "BLOCK_S", 1e-4), (adapting, "LAST_BLOCKS", 2)),
        (adapters, "next_candidates", lambda *arguments, **options: iter([TILED])),
    ):
        monkeypatch.setattr(module, name, value)


@pytest.mark.thorough
def test_a_case_adapts_apart_from_this_process_and_leaves_its_knobs(at_once, gathernest, unnamed_machine):
    process = adapters.ADAPTER
    ended = gathernest("bench", "--adapt", "--quick", "--case", "rows-64B", "--seconds", "20", "--threads", "1")
    assert ended.status == 0
    assert "| rows-64B: 512x16xf32 by 512xi64 |" in ended.out and "| 1 | " in ended.out
    assert f"× {TILED}\n" in ended.out
    assert adapters.ADAPTER is process and process.classes == {}
    assert (gn.knobs.adapt, gn.knobs.tuning, gn.knobs.machine) == (False, None, None)


@pytest.mark.thorough
def test_schedules_are_those_of_the_machine_that_the_knob_names(at_once, tmp_path, monkeypatch):
    file = tmp_path / "machine.json"
    file.write_text(json.dumps({"base": "zen3", "vector_bytes": 16, "wide_vector_bytes": 16}))
    monkeypatch.setattr(call_class, "LEAST_SPENT_S", 1e9)
    befores = []
    for machine in (None, file):
        if machine:
            monkeypatch.setenv("GATHERNEST_MACHINE", str(machine))
        (found,) = adapt([ROWS], seconds=1e-3, threads=1, advance=lambda done: None)
        befores.append(Schedule.parse(found.before).lanes)
    assert befores[1] == 4 and befores[0] != 4


def test_the_table_has_the_share_the_gain_and_the_races():
    races = (("", "failed", None), (str(TILED), "won", 1.25))
    one = Adapted(ROWS, 200.4, 190.2, 1000, 0.0123, "much", 1.25, False, "", str(TILED), races)
    lines = as_markdown([one], 2).splitlines()
    assert lines[2] == (
        "| rows: 400x64xf32 by 500xi64 | 1000 | 200 µs | 190 µs | 1.23 % | 1.25× | 2, not over | after 1 win |"
    )
    assert lines[4:7] == [
        "* rows, much; at first the empty schedule:",
        "  * failed  the empty schedule",
        f"  * won 1.25× {TILED}",
    ]
