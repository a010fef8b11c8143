"""Shared by the tests of reports: an explanation that nothing was timed for."""

import pytest

from gathernest.kernels.roofline.ceilings import Ceilings, CopyRate, LineRate
from gathernest.kernels.roofline.explanation import Ablation, Explanation
from gathernest.kernels.roofline.lower_bound import LowerBound, MeasuredBound
from gathernest.lowering.schedule.traffic import Traffic

TILED = "tile-loops{loops=indices sizes=64}"


@pytest.fixture(scope="session")
def explanation() -> Explanation:
    traffic = Traffic((("indices", 800.0), ("data", 25600.0), ("output", 25600.0)), lines=400.0, piece_lines=4.0)
    bound = LowerBound(traffic, copy_us=2.0, lines_us=3.0, copy_bytes_per_s=26e9, lines_per_s=133e6)
    ways = {"copy": "plain stores", "random lines": "8 at a time"}
    return Explanation(
        gather="gather 1000x64xf32 by 100xi64",
        schedule=f"{TILED},vectorize-inner{{lanes=8}}",
        reasons=("rows are <long>",),
        bound=MeasuredBound(bound, 2, ways, dict.fromkeys(ways, (2.0, 3.0))),
        lower_bound=bound,
        ceilings=Ceilings({"threads": 2}, (CopyRate(1024, 26e9),), (LineRate(1024, 1, 133e6),)),
        measured_us=6.0,
        fastest_us=5.0,
        rounds=9,
        predicted_us=4.0,
        ablations=(Ablation(TILED, 9.0, 1.5), Ablation("vectorize-inner{lanes=8}", rejected="no & never")),
    )
