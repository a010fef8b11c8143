"""Otava's process: what it is asked and how its answers, and its absence, are taken. One test runs the real one."""

import json
import sys

import platformdirs
import pytest

import gathernest as gn
from gathernest.tools.tracking.history import otava
from gathernest.tools.tracking.history.noise import Candidate

# The user's own cache: the tests have another.
CACHE = platformdirs.user_cache_dir("gathernest")
with gn.knobs.scope(cache_dir=CACHE):
    INSTALLED = otava.is_installed()


@pytest.fixture
def cache(tmp_path):
    with gn.knobs.scope(cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"


def fake(answer, status=0):
    """Put a program in the place of otava's Python, which writes what it is asked to `asked.json`."""
    place = otava.python_folder() / "bin"
    place.mkdir(parents=True)
    (place / "python").write_text(f"#!/bin/sh\ncat > {place}/asked.json\n{answer}\nexit {status}\n")
    (place / "python").chmod(0o755)
    return place / "asked.json"


def test_series_are_asked_and_change_points_answered_as_json(cache):
    asked = fake("""echo '{"one": [[30, 1e-9]], "two": []}'""")
    assert otava.candidates({"one": (1.0, 2.0), "two": (3.0,)}) == {"one": [Candidate(30, 1e-9)], "two": []}
    assert json.loads(asked.read_text()) == {"one": [1.0, 2.0], "two": [3.0]}


@pytest.mark.parametrize("answer", ["echo nothing", "echo '{}'", "echo '[1]'"])
def test_answer_that_cannot_be_read_names_the_folder(cache, answer):
    fake(answer)
    with pytest.raises(otava.OtavaError, match=r"answer cannot be read; remove .*/otava-.* to install it anew"):
        otava.candidates({"one": (1.0,)})


def test_error_of_otava_is_its_last_line(cache):
    fake("echo 'Traceback' >&2; echo 'ImportError: no scipy' >&2", status=1)
    with pytest.raises(otava.OtavaError, match=r"^ImportError: no scipy$"):
        otava.candidates({"one": (1.0,)})


def test_failed_installation_leaves_nothing_behind(cache, monkeypatch, tmp_path):
    (tmp_path / "python").write_text("#!/bin/sh\necho 'no network' >&2\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(otava.OtavaError, match="no network"):
        otava.install()
    assert not otava.is_installed() and list(cache.iterdir()) == []


def test_cache_that_cannot_be_written_is_said(cache):
    cache.write_text("a file")
    with pytest.raises(otava.OtavaError, match=r"otava cannot be installed in .* \(File exists\)"):
        otava.install()


@pytest.mark.skipif(not INSTALLED, reason="otava is not installed; gathernest bench history installs it")
def test_otava_finds_steps_and_none_in_equal_numbers():
    series = {"step": [100.0] * 30 + [102.0] * 30, "last": [100.0] * 59 + [102.0], "flat": [5.0] * 60, "one": [1.0]}
    with gn.knobs.scope(cache_dir=CACHE):
        found = otava.candidates(series)
    at = {name: [point.index for point in points] for name, points in found.items()}
    assert at == {"step": [30], "last": [59], "flat": [], "one": []}
