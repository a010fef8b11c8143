"""What a run prints, writes and draws, from figures that are made up."""

import io
import json
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from rich.console import Console

from gathernest.kernels.roofline.lower_bound import LowerBound, MeasuredBound
from gathernest.lowering.schedule.traffic import Traffic
from gathernest.tools.bench import plot as picture
from gathernest.tools.bench import report as reporting
from gathernest.tools.bench import table as tables
from gathernest.tools.bench.cases.case import Case
from gathernest.tools.bench.cases.suite import SUITE
from gathernest.tools.bench.measure import Measured
from gathernest.tools.bench.plots.bars import BOUND, FASTER, SLOWER
from gathernest.tools.bench.plots.cases_plot import MOST_TIMES, cases_plot
from gathernest.tools.bench.report import Report, as_json
from gathernest.tools.bench.scaling.threads_together import Together
from gathernest.tools.bench.table import as_markdown, as_table, conditions, ratio_text, summary, time_text


def bound_of(time_us: float, in_order_us: float | None = None) -> MeasuredBound:
    """A bound of one round: a copy of so long, lines of half of that, and lines in the order of the indices."""
    bound = LowerBound(Traffic((("output", 1000.0),), 10.0, 2.0, True), time_us, time_us / 2, 1e9, 1e8)
    ways = {"copy": "non-temporal stores", "random lines": "without prefetching"}
    rounds_us = {"copy": [time_us], "random lines": [time_us / 2]}
    if in_order_us is None:
        return MeasuredBound(bound, 2, ways, rounds_us)
    return MeasuredBound(bound, 2, ways, {**rounds_us, "lines in order": [in_order_us]}, ordered_lines=50.0)


FAST = Measured(
    Case("rows-256B", "rows", (1000, 64), (100,)),
    {"gathernest": 10.0, "numpy": 40.0, "torch": 25.0},
    {"numpy": 4.0, "torch": 2.5},
    {"gathernest": "kernel", "numpy": "index", "torch": "take"},
    rounds_us={"gathernest": [9.0, 10.0, 11.0], "numpy": [40.0, 40.0, 44.0], "torch": [20.0, 25.0, 30.0]},
)
SLOW = Measured(
    Case("last-axis", "axes", (8192, 4096), (512,), axis=1),
    {"gathernest": 2000.0, "numpy": 1000.0},
    {"numpy": 0.5},
    {"gathernest": "kernel", "numpy": "ndarray.take"},
    rejected={"torch": "has no such operator"},
)
SPOILT = Measured(
    Case("scalars", "scalars", (1000,), (100,)),
    {"gathernest": 5.0, "numpy": 5.0},
    {"numpy": 1.0},
    {"gathernest": "kernel", "numpy": "index"},
    wrong={"torch": "take: gives other bytes at (3,) and 0 other places of 100"},
)
CALL = Measured(
    Case("call-kernel", "call", (5, 4), (3,)),
    {"gathernest": 0.4, "numpy": 0.04},
    {"numpy": 0.1},
    {"gathernest": "kernel", "numpy": "ndarray.take"},
)
NEW = Measured(
    replace(FAST.case, into="new"),
    {"gathernest": 20.0, "numpy": 30.0, "torch": 10.0},
    {"numpy": 1.5, "torch": 0.5},
    {"gathernest": "kernel", "numpy": "index", "torch": "take"},
    rounds_us={"gathernest": [20.0], "numpy": [30.0], "torch": [10.0]},
)
BOTH = replace(FAST, new=NEW)
VERSIONS = {"gathernest": "0.1.0", "numpy": "2.4.6", "torch": "2.13.0"}


def report(*measured: Measured, **settings) -> Report:
    return Report(measured, VERSIONS, 2, 9, **settings)


def lines_of(table) -> list[str]:
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(table)
    return console.file.getvalue().splitlines()


def test_table_has_a_ratio_for_every_peer_and_a_line_for_every_family():
    lines = [line.split() for line in lines_of(as_table(report(FAST, SLOW, SPOILT)))]
    assert lines == [
        ["case", "time", "best", "numpy", "torch"],
        ["rows"],
        ["rows-256B", "10.0", "µs", "2.50×", "4.00×", "2.50×"],
        ["axes"],
        ["last-axis", "2.00", "ms", "0.50×", "0.50×", "–"],
        ["scalars"],
        ["scalars", "5.00", "µs", "1.00×", "1.00×", "wrong"],
    ]


def test_table_has_the_fraction_of_the_bound_where_it_is_known():
    measured = Measured(FAST.case, FAST.median_us, FAST.ratios, FAST.ways, bound=bound_of(8.0))
    lines = [line.split() for line in lines_of(as_table(report(measured, SLOW)))]
    assert lines[0][-2:] == ["of", "bound"]
    assert lines[2][-2:] == ["80", "%"]
    assert lines[4][-1] == "–"


def test_summary_leaves_gradients_and_calls_out_of_the_mean_of_all():
    assert [line.split() for line in summary(report(FAST, SLOW, CALL))] == [
        ["rows", "2.50×,", "worst", "2.50×", "(rows-256B)"],
        ["axes", "0.50×,", "worst", "0.50×", "(last-axis)"],
        ["call", "0.10×,", "worst", "0.10×", "(call-kernel)"],
        ["all", "gathers", "1.12×,", "worst", "0.50×", "(last-axis)"],
    ]


def test_summary_without_peers_is_empty():
    assert summary(report(Measured(FAST.case, {"gathernest": 1.0}))) == []


def test_fraction_of_the_limit_is_a_mean_over_cases_larger_than_cache(monkeypatch):
    monkeypatch.setattr(reporting, "cache_sizes", lambda: {"L1": 2**15, "L3": 2**20})
    small, large = (Measured(one.case, one.median_us, bound=bound_of(us)) for one, us in ((FAST, 1.0), (SLOW, 1800.0)))
    assert report(small, large).of_bound() == pytest.approx(0.9)
    assert report(small, large).of_bound_in_order() is None
    assert summary(report(small, large)) == ["of the bound                90 %, cases larger than cache"]


def test_fraction_in_order_has_a_mean_and_a_line_of_its_own(monkeypatch):
    monkeypatch.setattr(reporting, "cache_sizes", lambda: {"L1": 2**15, "L3": 2**20})
    measured = Measured(SLOW.case, SLOW.median_us, bound=bound_of(600.0, 1500.0))
    found = report(measured)
    assert (found.of_bound(), found.of_bound_in_order()) == (pytest.approx(0.3), pytest.approx(0.75))
    assert summary(found) == [
        "of the bound                30 %, cases larger than cache",
        "of the bound in order       75 %, cases larger than cache",
    ]
    stored = json.loads(json.dumps(as_json(found)))
    assert stored["of_bound_in_order_beyond_cache"] == pytest.approx(0.75)
    (case,) = stored["cases"]
    assert (case["of_bound"], case["of_bound_in_order"]) == (pytest.approx(0.3), pytest.approx(0.75))
    assert (case["bound"]["ordered_lines"], case["bound"]["bound_in_order_us"]) == (50.0, 1500.0)


def test_json_can_be_written_and_has_every_figure():
    found = json.loads(json.dumps(as_json(report(FAST, SLOW, SPOILT))))
    assert (found["threads"], found["rounds"], found["cut"]) == (2, 9, None)
    assert found["versions"]["numpy"] == "2.4.6"
    fast, slow, spoilt = found["cases"]
    assert (fast["name"], fast["best_peer"], fast["ratio"]) == ("rows-256B", "torch", 2.5)
    assert (fast["median_us"], fast["ratios"]) == (FAST.median_us, FAST.ratios)
    assert fast["ways"]["numpy"] == "index"
    assert fast["rounds_us"]["torch"] == [20.0, 25.0, 30.0]
    assert (fast["data"], fast["row_bytes"], fast["rows"]) == ([1000, 64], 256, 100)
    assert slow["rejected"] == {"torch": "has no such operator"}
    assert spoilt["wrong"] == SPOILT.wrong

    assert {name: mean["geometric_mean"] for name, mean in found["families"].items()} == pytest.approx(
        {"rows": 2.5, "axes": 0.5, "scalars": 1.0}
    )
    assert found["gathers"]["worst_case"] == "last-axis"
    assert found["gathers"]["below_1"] == ["last-axis"]
    assert {"cpu", "usable_cores", "caches_bytes"} <= set(found["machine"])


def test_new_results_have_columns_of_their_own():
    lines = [line.split() for line in lines_of(as_table(report(BOTH, SLOW)))]
    assert lines[0] == ["case", "time", "best", "numpy", "torch", "new", "best"]
    assert lines[2] == ["rows-256B", "10.0", "µs", "2.50×", "4.00×", "2.50×", "20.0", "µs", "0.50×"]
    assert lines[4] == ["last-axis", "2.00", "ms", "0.50×", "0.50×", "–"]
    assert summary(report(BOTH, SLOW))[0].split("; ") == [
        "rows                       2.50×, worst 2.50× (rows-256B)",
        "new results   0.50×, worst 0.50× (rows-256B)",
    ]
    lines = as_markdown(report(BOTH, SLOW)).splitlines()
    assert lines[0] == "| case | shapes | time | best peer | ratio | new result |"
    assert lines[2].endswith("| torch take, 25.0 µs | 2.50× | 20.0 µs, **0.50×** torch |")
    assert lines[3].endswith("| **0.50×** |  |")
    assert "| family | cases | geometric mean | worst case | new result |" in lines
    assert "| rows | 1 | 2.50× | 2.50×, rows-256B | 0.50× |" in lines


def test_json_has_new_results_beside_the_given_ones():
    found = json.loads(json.dumps(as_json(report(BOTH, SLOW))))
    both, alone = found["cases"]
    assert (found["format"], both["ratio"], both["new"]["ratio"], both["new"]["best_peer"]) == (3, 2.5, 0.5, "torch")
    assert (both["new"]["median_us"], both["new"]["rounds_us"]) == (NEW.median_us, NEW.rounds_us)
    assert alone["new"] is None
    assert (found["gathers"]["cases"], found["new"]["gathers"]["cases"]) == (2, 1)
    assert found["new"]["families"]["rows"]["geometric_mean"] == pytest.approx(0.5)
    assert json.loads(json.dumps(as_json(report(SLOW))))["new"] is None


def test_calls_that_make_their_result_anyway_count_as_new_results():
    function = replace(CALL, case=replace(CALL.case, into="new"))
    new = report(BOTH, function).of_new_results
    assert new is not None and new.measured == [NEW, function]
    assert report(function).of_new_results is None


def test_wrong_bytes_of_new_results_are_told():
    spoilt = replace(FAST, new=replace(NEW, wrong={"torch": "take: gives other bytes"}))
    assert report(spoilt).wrong == ["rows-256B, new result: torch take: gives other bytes"]


def test_json_has_the_bound_under_a_key_of_its_own():
    bounded = Measured(FAST.case, FAST.median_us, FAST.ratios, FAST.ways, rounds_us=FAST.rounds_us, bound=bound_of(8.0))
    bounded, without = json.loads(json.dumps(as_json(report(bounded, SLOW))))["cases"]
    assert (bounded["bound_us"], bounded["of_bound"]) == (8.0, 0.8)
    bound = bounded["bound"]
    assert (bound["time_us"], bound["bound_by"], bound["copy_us"], bound["lines_us"]) == (8.0, "copy", 8.0, 4.0)
    assert bound["rounds_us"] == {"copy": [8.0], "random lines": [4.0]}
    assert bound["ways"] == {"copy": "non-temporal stores", "random lines": "without prefetching"}
    assert (bound["bytes"]["all"], bound["lines"], bound["threads"]) == (1000, 10, 2)
    assert set(bounded["rounds_us"]) == set(bounded["median_us"]) == {"gathernest", "numpy", "torch"}
    assert (without["bound"], without["bound_us"], without["of_bound"]) == (None, None, None)


def test_json_says_which_cases_are_larger_than_the_cache(monkeypatch):
    monkeypatch.setattr(reporting, "cache_sizes", lambda: {"L1": 2**15, "L3": 2**20})
    assert [case["larger_than_cache"] for case in as_json(report(FAST, SLOW))["cases"]] == [False, True]


def test_markdown_marks_where_a_peer_wins_and_ends_with_the_conditions():
    lines = as_markdown(report(FAST, SLOW)).splitlines()
    assert lines[0] == "| case | shapes | time | best peer | ratio |"
    assert lines[2] == "| rows-256B | 1000x64xf32 by 100xi64 | 10.0 µs | torch take, 25.0 µs | 2.50× |"
    assert lines[3] == (
        "| last-axis | 8192x4096xf32 by 512xi64, axis 1 | 2.00 ms | numpy ndarray.take, 1.00 ms | **0.50×** |"
    )
    assert "| axes | 1 | 0.50× | 0.50×, last-axis |" in lines
    assert "| all gathers | 2 | 1.12× | 0.50×, last-axis |" in lines
    assert lines[-1] == f"{conditions(report(FAST, SLOW))}."


def test_markdown_of_a_case_without_peers_leaves_them_empty():
    alone = Measured(FAST.case, {"gathernest": 10.0}, ways={"gathernest": "kernel"})
    assert as_markdown(report(alone)).splitlines()[2] == "| rows-256B | 1000x64xf32 by 100xi64 | 10.0 µs |  |  |"


def test_conditions_name_machine_threads_rounds_versions_and_what_was_cut(monkeypatch):
    monkeypatch.setattr(tables, "cpu_model", lambda: "Some CPU")
    told = conditions(report(FAST, cut=512))
    for part in ("Some CPU", "2 threads for everyone but numpy", "9 interleaved rounds", "above 512", "torch 2.13.0"):
        assert part in told
    assert "above" not in conditions(report(FAST))


def test_conditions_and_json_say_how_much_faster_than_one_thread_all_were():
    found = report(FAST, together=(Together(2.0, 1.04), Together(1.96, 1.91)))
    assert "who compute and copy 2.0 and 1.0 times as fast as one before the run, 2.0 and 1.9 after it" in conditions(
        found
    )
    assert as_json(found)["together"][0] == {"computing": 2.0, "copying": 1.04}
    assert "as fast as one" not in conditions(report(FAST, together=(None, None)))


def test_wrong_bytes_are_a_line_with_case_and_candidate():
    assert report(FAST, SPOILT).wrong == ["scalars: torch take: gives other bytes at (3,) and 0 other places of 100"]


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        *[(0.123, "0.12 µs"), (9.994, "9.99 µs"), (9.996, "10.0 µs"), (99.96, "100 µs"), (999.4, "999 µs")],
        *[(999.6, "1.00 ms"), (25_300.0, "25.3 ms"), (None, "")],
    ],
)
def test_times_have_three_digits(microseconds, text):
    assert time_text(microseconds) == text


def test_ratios_have_two_places_up_to_a_hundred():
    assert [ratio_text(ratio) for ratio in (None, 0.019, 1.255, 99.99, 123.4)] == [
        "",
        "0.02×",
        "1.25×",
        "99.99×",
        "123×",
    ]


def test_plot_is_an_svg_that_needs_no_other_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    picture.plot(report(FAST, SLOW, SPOILT), tmp_path / "x.svg")
    root = ElementTree.parse(tmp_path / "x.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme:dark" in (tmp_path / "x.svg").read_text()


@pytest.mark.parametrize(("name", "corner"), [("x.png", (255, 255, 255)), ("x-dark.png", (13, 17, 23))])
def test_plot_as_png_has_a_light_or_a_dark_background(tmp_path, name, corner):
    image = pytest.importorskip("matplotlib.image", reason="drawing needs matplotlib, which is not installed")
    picture.plot(report(FAST, SLOW, SPOILT), tmp_path / name)
    pixels = image.imread(tmp_path / name)
    assert tuple((pixels[0, 0, :3] * 255).round().astype(int)) == corner


def drawn(*measured: Measured) -> ElementTree.Element:
    return ElementTree.fromstring(cases_plot(as_json(report(*measured)), "A machine"))


def bars(root: ElementTree.Element, hue: str) -> list[float]:
    return [float(one.attrib["width"]) for one in root.iter() if one.get("fill") == hue]


def test_plot_has_a_bar_with_its_value_for_each_case_with_a_peer():
    root = drawn(FAST, SLOW, Measured(CALL.case, {"gathernest": 1.0}))
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"2.50×", "rows-256B", "10.0 µs, torch 25.0 µs", "0.50×", "last-axis", "A machine"} <= {*texts}
    assert "call-kernel" not in texts
    (faster,), (slower,) = bars(root, FASTER), bars(root, SLOWER)
    assert faster / slower == pytest.approx(5.0)


def test_a_very_long_bar_is_cut_and_its_end_is_broken():
    root = drawn(FAST, replace(FAST, ratios={"torch": 80.0}))
    short, long = bars(root, FASTER)
    assert long / short == pytest.approx(MOST_TIMES / 2.5)
    assert "80.00×" in [one.text for one in root.iter()]
    assert any("broken end" in (one.text or "") for one in root.iter())


def test_roofline_has_a_bar_for_every_case_whose_bound_was_measured():
    root = drawn(replace(FAST, bound=bound_of(8.0, 9.0)), SLOW)
    assert len(bars(root, BOUND)) == 1
    assert "80 %" in [one.text for one in root.iter()]
    assert "with capacity misses 90%" in [one.text for one in root.iter()]


def test_every_name_of_the_suite_fits_the_table():
    assert max(len(case.name) for case in SUITE) <= 24
