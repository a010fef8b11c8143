"""The bars of an explanation: as long as the numbers are large, escaped, and there for every number."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from gathernest.kernels.drawings.bars import LONGEST
from gathernest.kernels.drawings.stream_drawing import stream_drawing, worth_drawing
from gathernest.kernels.roofline.ceilings import Ceilings, CopyRate, LineRate
from gathernest.kernels.roofline.explanation import Ablation, Explanation
from gathernest.kernels.roofline.lower_bound import LowerBound, MeasuredBound
from gathernest.lowering.schedule.traffic import Traffic

SVG = "{http://www.w3.org/2000/svg}"
TRAFFIC = Traffic((("indices", 1e5), ("data", 3e6), ("output", 1.5e6)), lines=46875.0, piece_lines=4.0)
BOUND = LowerBound(TRAFFIC, copy_us=40.0, lines_us=60.0, copy_bytes_per_s=1e11, lines_per_s=8e8)
WAYS = {"copy": "stores <plain>", "random lines": "8 at a time"}
EXPLANATION = Explanation(
    gather="gather 1000x64xf32 by 100xi64",
    schedule="vectorize-inner{lanes=8}",
    reasons=(),
    bound=MeasuredBound(BOUND, 2, WAYS, {"copy": (40.0,), "random lines": (60.0,)}),
    lower_bound=BOUND,
    ceilings=Ceilings({}, (CopyRate(1024, 1e11),), (LineRate(1024, 1, 8e8),)),
    measured_us=80.0,
    fastest_us=70.0,
    rounds=9,
    predicted_us=1200.0,
    ablations=(
        Ablation("vectorize-inner{lanes=8}", 160.0, 2.0),
        Ablation("stream-stores", 40.0, 0.5),
        Ablation("tile-loops{loops=indices sizes=64}", rejected="<no> & never"),
    ),
)


def rows(svg: str) -> dict[str, tuple[str, float | None]]:
    """Return the number and the length of each bar by its name, whole as on hovering."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if "gn-bar " in group.get("class"):
            name, _, text = group.find(f"{SVG}title").text.partition(": ")
            rect = group.find(f"{SVG}rect")
            found[name] = text, None if rect is None else float(rect.get("width"))
    return found


def mark(svg: str, number: int = 0) -> float:
    """Return how far from the start of the bars a dashed line is."""
    root = ElementTree.fromstring(svg)
    group = [group for group in root.iter(f"{SVG}g") if group.get("class") == "gn-bars"][number]
    start = float(next(group.iter(f"{SVG}rect")).get("x"))
    return float(group.find(f"{SVG}line").get("x1")) - start


def test_streams_have_bars_as_long_as_their_bytes():
    found = rows(stream_drawing(EXPLANATION))
    assert found["data"] == ("3 MB, 65%", LONGEST)
    assert found["output"] == ("1.5 MB, 33%", LONGEST / 2)
    assert found["indices"] == ("100 kB, 2%", pytest.approx(LONGEST / 30, abs=0.01))


def test_times_stand_beside_the_roofline_bound():
    svg = stream_drawing(EXPLANATION)
    found = rows(svg)
    assert found["measured, median of 9"] == ("80.00 µs", pytest.approx(LONGEST * 80 / 1200, abs=0.01))
    assert found["predicted by the cost model"] == ("1.20 ms", LONGEST)
    assert mark(svg, 1) == pytest.approx(LONGEST * 60 / 1200, abs=0.01)
    assert "fraction 0.75 of the roofline bound (dashed), by random lines" in svg
    assert "lines in the order of the indices" not in found


def test_lines_in_order_have_a_bar_where_they_were_measured():
    rounds = {**EXPLANATION.bound.rounds_us, "lines in order": (90.0, 110.0, 100.0)}
    bound = replace(
        EXPLANATION.bound, ordered_lines=5e4, ways={**WAYS, "lines in order": "as they come"}, rounds_us=rounds
    )
    found = rows(stream_drawing(replace(EXPLANATION, bound=bound, predicted_us=None)))
    assert found["lines in the order of the indices"] == ("100.00 µs", LONGEST)
    assert "predicted by the cost model" not in found


def test_a_pass_that_pays_has_a_longer_bar_than_the_mark():
    svg = worth_drawing(EXPLANATION)
    found = rows(svg)
    assert found["vectorize-inner{lanes=8}"] == ("2.00×, 160.00 µs without it", LONGEST)
    assert found["stream-stores"][1] == LONGEST / 4 < mark(svg) == LONGEST / 2
    assert found["tile-loops{loops=indices sizes=64}"] == ("not legal: <no> & never", None)
    assert "<no>" not in svg


def test_a_schedule_without_passes_has_no_bars():
    svg = worth_drawing(replace(EXPLANATION, schedule="", ablations=()))
    assert rows(svg) == {}
    assert "has no passes to leave out" in svg


def test_no_bytes_give_bars_without_length():
    empty = Traffic((("indices", 0.0), ("data", 0.0), ("output", 0.0)), 0.0, 1.0)
    bound = replace(BOUND, traffic=empty)
    found = rows(stream_drawing(replace(EXPLANATION, lower_bound=bound)))
    assert found["data"] == ("0 bytes, 0%", 1.0)


def test_the_description_is_the_text_of_the_explanation():
    description = ElementTree.fromstring(stream_drawing(EXPLANATION)).find(f"{SVG}desc").text
    assert "bound by random lines, on 2 threads" in description
    assert "stores <plain>" in description
