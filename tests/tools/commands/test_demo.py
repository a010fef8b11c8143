import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from gathernest.tools.commands import demo

QUICK = ("demo", "--rounds", "1", "--sequences", "4")


@pytest.fixture(autouse=True)
def little_text(monkeypatch):
    """Read one package of the standard library: to list all its files takes 0.3 s."""
    monkeypatch.setattr(demo, "TEXT_BYTES", 100_000)
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"stdlib": str(Path(asyncio.__file__).parent)})


def test_ids_spell_the_text_of_the_whole_library(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(demo, "TEXT_BYTES", 100_000)
    text = demo.read_standard_library()
    assert text.ids.max() == len(text.words) - 1
    assert len(set(text.words)) == len(text.words)
    spelled = " ".join(text.words[number] for number in text.ids[:2000])
    assert "import" in spelled


def test_demo_prints_every_part_in_a_hundred_columns_and_agrees_with_numpy(gathernest):
    ended = gathernest(*QUICK)
    assert (ended.status, ended.err) == (0, "")
    for part in (
        "The operator\n  %result = gather.gather %data, %indices axis 0",
        "Its loop nest\n  for batch",
        "parallel for indices_o",
        "store_v",
        "4x512x384xf32, byte for byte what numpy.take gives",
        "  numpy.take   ",
        "MiB a look-up",
        "result allocated",
        "out= given",
    ):
        assert part in ended.out
    assert max(map(len, ended.out.splitlines())) <= 100


def test_copying_function_is_found_where_all_stores_are_non_temporal():
    source = "@njit()\ndef copy_tile(k):\n    stream_i32(out, 0, 1)\n\n\n@njit()\ndef gather(k):\n    copy_tile(k)\n"
    assert demo._copying_function(source) == ["def copy_tile(k):", "    stream_i32(out, 0, 1)"]


def test_json_has_sizes_times_and_the_verdict(gathernest):
    ended = gathernest(*QUICK, "--json")
    assert (ended.status, ended.err) == (0, "")
    facts = json.loads(ended.out)
    assert facts["same_bytes"] is True
    assert facts["indices"] == [4, 512]
    assert facts["table"] == [facts["vocabulary"], 384]
    assert facts["bytes_moved"] == 4 * 512 * (8 + 2 * 384 * 4)
    assert set(facts["median_ms"]) >= {"gathernest on one thread", "numpy.take"}
    assert all(set(times) == {"allocated_ms", "out_given_ms"} for times in facts["median_ms"].values())


def test_one_thread_has_one_row(gathernest, monkeypatch):
    monkeypatch.setenv("GATHERNEST_NUM_THREADS", "1")
    facts = json.loads(gathernest(*QUICK, "--json").out)
    assert list(facts["median_ms"]) == ["gathernest on one thread", "numpy.take"]


@pytest.mark.thorough
def test_text_is_the_same_every_time():
    first, second = demo.read_standard_library(), demo.read_standard_library()
    assert first.words == second.words
    assert np.array_equal(first.ids, second.ids)


@pytest.mark.thorough
def test_wrong_byte_fails_and_says_so(gathernest, monkeypatch):
    monkeypatch.setattr(demo, "first_difference", lambda got, wanted: ((0, 0, 0), 1))
    ended = gathernest(*QUICK)
    assert ended.status == 1
    assert "and NOT what numpy.take gives; please report this" in ended.out
    assert "Medians" not in ended.out


def test_wrong_byte_fails_in_json(gathernest, monkeypatch):
    monkeypatch.setattr(demo, "first_difference", lambda got, wanted: ((0, 0, 0), 1))
    ended = gathernest(*QUICK, "--json")
    assert ended.status == 1
    assert json.loads(ended.out)["same_bytes"] is False


def test_more_sequences_than_the_text_has_are_rejected(gathernest):
    ended = gathernest("demo", "--sequences", "1000000")
    assert ended.status == 1
    assert ended.err.startswith("gathernest: error: the text has ")
    assert ended.err.endswith(" sequences of 512 tokens, got --sequences 1000000\n")


def test_python_without_its_library_is_rejected(gathernest, monkeypatch, tmp_path):
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"stdlib": str(tmp_path)})
    ended = gathernest("demo")
    assert ended.status == 1
    assert f"{tmp_path} has no source of the standard library to read" in ended.err


def test_setting_that_is_not_allowed_is_told_before_anything_is_printed(gathernest, monkeypatch):
    monkeypatch.setenv("GATHERNEST_NUM_THREADS", "0")
    said = "GATHERNEST_NUM_THREADS='0' is not allowed; set it to a whole number from 1 below 2**31"
    assert gathernest(*QUICK) == (1, "", f"gathernest: error: {said}\n")


@pytest.mark.thorough
def test_one_sequence_is_counted_in_words(gathernest):
    assert "1 sequence of 512 tokens; the first begins: " in gathernest("demo", "--rounds", "1", "--sequences", "1").out


def test_interpreter_is_rejected(gathernest, monkeypatch):
    monkeypatch.setenv("GATHERNEST_INTERPRET", "1")
    ended = gathernest("demo")
    assert (ended.status, ended.err) == (
        1,
        "gathernest: error: the demo times compiled code, and GATHERNEST_INTERPRET is set; unset it\n",
    )
