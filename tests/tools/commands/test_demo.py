import asyncio
import json
import re
from pathlib import Path

import numpy as np
import pytest

from gathernest.tools.commands import demo

QUICK = ("demo", "--rounds", "1", "--sequences", "4")


@pytest.fixture
def library(monkeypatch):
    """Have the demo read one package of the standard library, or another folder: all its files take 0.8 s."""

    def use(folder=Path(asyncio.__file__).parent):
        monkeypatch.setattr("sysconfig.get_paths", lambda: {"stdlib": str(folder)})

    use()
    return use


@pytest.mark.thorough
def test_ids_spell_the_text_of_the_whole_library_the_same_way_every_time():
    text, again = demo.read_standard_library(), demo.read_standard_library()
    assert text.ids.max() == len(text.words) - 1
    assert len(set(text.words)) == len(text.words)
    assert "import" in " ".join(text.words[number] for number in text.ids[:2000])
    assert text.words == again.words and np.array_equal(text.ids, again.ids)


def test_demo_prints_every_part_in_a_hundred_columns_and_agrees_with_numpy(gathernest, library):
    ended = gathernest(*QUICK)
    assert (ended.status, ended.err) == (0, "")
    for part in (
        "The operator\n  %result = gather.gather %data, %indices axis 0",
        "Its loop nest\n  for batch",
        "parallel for indices_o",
        "4x512x384xf32, byte for byte what numpy.take gives",
        "  numpy.take   ",
        "MiB a look-up",
        "result allocated",
        "out= given",
    ):
        assert part in ended.out
    assert re.search(r"store_v\d+xi32\(out \+ ", ended.out)
    assert max(map(len, ended.out.splitlines())) <= 100


def test_json_has_sizes_times_and_the_verdict(gathernest, library):
    ended = gathernest(*QUICK, "--json")
    assert (ended.status, ended.err) == (0, "")
    facts = json.loads(ended.out)
    assert facts["same_bytes"] is True
    assert facts["indices"] == [4, 512]
    assert facts["table"] == [facts["vocabulary"], 384]
    assert facts["bytes_moved"] == 4 * 512 * (8 + 2 * 384 * 4)
    assert list(facts["median_ms"]) == ["gathernest", "numpy.take"]
    assert all(set(times) == {"allocated_ms", "out_given_ms"} for times in facts["median_ms"].values())


def test_wrong_byte_fails_and_says_so(gathernest, library, monkeypatch):
    monkeypatch.setattr(demo, "first_difference", lambda got, wanted: ((0, 0, 0), 1))
    ended = gathernest(*QUICK)
    assert ended.status == 1
    assert "and NOT what numpy.take gives; please report this" in ended.out
    assert "Medians" not in ended.out
    ended = gathernest(*QUICK, "--json")
    assert (ended.status, json.loads(ended.out)["same_bytes"]) == (1, False)


def test_more_sequences_than_the_text_has_are_rejected(gathernest, library):
    ended = gathernest("demo", "--sequences", "1000000")
    assert ended.status == 1
    assert ended.err.startswith("gathernest: error: the text has ")
    assert ended.err.endswith(" sequences of 512 tokens, got --sequences 1000000\n")


def test_python_without_its_library_is_rejected(gathernest, library, tmp_path):
    library(tmp_path)
    ended = gathernest("demo")
    assert ended.status == 1
    assert f"{tmp_path} has no source of the standard library to read" in ended.err


@pytest.mark.thorough
def test_one_sequence_is_counted_in_words(gathernest, library):
    assert "1 sequence of 512 tokens; the first begins: " in gathernest("demo", "--rounds", "1", "--sequences", "1").out
