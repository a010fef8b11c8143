import json
import math

import numpy as np
import pytest

from gathernest.tools.tracking.paired.calibrate_noise import noise_of, smallest_change
from gathernest.tools.tracking.paired.processes import Session
from gathernest.tools.tracking.paired.sampling import MARGIN, Series, error_of_last_look


def test_smallest_change_is_found_in_nine_of_ten_comparisons():
    rng = np.random.default_rng(0)
    change = smallest_change(rng.normal(0, 0.02, 4000), restarts=30, benchmarks=10)
    found = 0
    for _ in range(300):
        one = Series("call-kernel", MARGIN, list(math.log1p(change) + rng.normal(0, 0.02, 30)))
        one.look(error_of_last_look(30, 10))
        found += one.verdict == "slower"
    assert 0.8 < found / 300 < 0.97


def test_longer_comparisons_see_smaller_changes_and_short_ones_none():
    drawn = np.random.default_rng(1).normal(0, 0.02, 40)
    [noise] = noise_of([Series("call-kernel", MARGIN, list(drawn))], preparing_s=36.0, restart_s=5.0)
    assert noise.family == "call"
    assert noise.spread == pytest.approx(0.02, rel=0.3)
    assert noise.smallest[1] is None
    assert 0.01 < noise.smallest[5] < noise.smallest[2] < 0.1
    assert not noise.is_alarm


@pytest.mark.thorough
def test_command_prints_each_family(gathernest, repository, eight_restarts, monkeypatch, tmp_path):
    rng = np.random.default_rng(2)
    monkeypatch.setattr(
        Session, "restart", lambda self, names, number: {name: (rng.normal(0, 0.01), 1e3) for name in names}
    )
    file = tmp_path / "noise.json"
    words = ("--case", "call-kernel", "--budget", "12s", "--json", str(file))
    ended = gathernest("bench", "calibrate-noise", "plain", *words)
    noise = json.loads(file.read_text())
    assert (ended.status, noise["alarms"]) == (0, [])
    assert list(noise["benchmarks"]) == ["call-kernel"]
    assert noise["restarts"] >= 8
    assert "\ncall " in ended.out
    assert "0 of 1 benchmarks differ from themselves" in ended.out


@pytest.mark.thorough
def test_too_few_restarts_fail(gathernest, repository):
    ended = gathernest("bench", "calibrate-noise", "--case", "call-kernel", "--budget", "0.1s")
    assert ended.status == 1
    assert "too few restarts, 8 are needed: give a longer --budget, or fewer --case" in ended.out
