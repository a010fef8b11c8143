"""Files of tuning records: what is read, merged, written and rejected."""

import json
import os
import resource
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gathernest as gn
from gathernest.kernels.tuned_schedules import records as tuning_records
from gathernest.kernels.tuned_schedules.records import (
    Record,
    TuningFileError,
    TuningWarning,
    better,
    change_records,
    merged,
    read_records,
    write_records,
)

RECORD = Record(
    schedule="tile-loops{loops=indices sizes=64},parallelize-loops{loops=indices_o}",
    default="",
    default_us=20.0,
    winner_us=10.0,
    ratio=2.0,
    pairs=21,
    wins=21,
    date="2026-01-02T03:04:05Z",
    cpu="a CPU",
    versions={"gathernest": "0.1.0"},
    problem={"operator": "gather", "data": "1000x64xf32", "indices": "100xi64"},
)
SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, database=None)
RECORDS = st.dictionaries(
    st.sampled_from(["one class", "another", "a third"]),
    st.builds(
        lambda schedule, ratio, pairs, date: replace(RECORD, schedule=schedule, ratio=ratio, pairs=pairs, date=date),
        st.sampled_from([None, "", "parallelize-loops{loops=indices}"]),
        st.floats(0.5, 2.0),
        st.integers(15, 17),
        st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]),
    ),
)


@SETTINGS
@given(RECORDS, RECORDS, RECORDS)
def test_merging_does_not_depend_on_the_order_and_twice_is_once(one, other, third):
    both = merged(one, other)
    assert both == merged(other, one)
    assert merged(both, third) == merged(one, merged(other, third))
    assert merged(both, one) == both
    assert both.keys() == one.keys() | other.keys()


@SETTINGS
@given(RECORDS)
def test_records_read_back_from_their_file(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("records") / "records.json"
    write_records(path, records)
    assert read_records(path) == records


def test_more_pairs_count_more_and_of_as_many_the_newer():
    more, newer = replace(RECORD, pairs=31), replace(RECORD, date="2027-01-01T00:00:00Z")
    assert better(more, newer) is more
    assert better(RECORD, newer) is newer


def test_the_file_is_readable_and_sorted(tmp_path):
    path = tmp_path / "records.json"
    change_records(path, lambda before: {"b": RECORD, "a": RECORD})
    content = json.loads(path.read_text())
    assert content["format"] == 1
    assert list(content["records"]) == ["a", "b"]
    assert content["records"]["a"]["schedule"] == RECORD.schedule
    assert path.read_text().count("\n") > 20
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".records.json.lock", "records.json"]


def record_with(**changes: object) -> str:
    return json.dumps({"format": 1, "records": {"a class": RECORD.to_json() | changes}})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ("[]", "it must be an object with format and records"),
        ('{"format": 1}', "it must be an object with format and records"),
        ('{"format": 2, "records": {}}', "its format is 2, and this version reads 1"),
        ('{"format": 1, "records": {"a class": 3}}', "record 'a class': a record has schedule, default, "),
        (record_with(extra=1), "a record has schedule, default, "),
        (record_with(schedule=3), "schedule must be text, got 3"),
        (record_with(ratio=0), "ratio must be a number above 0, got 0"),
        (record_with(ratio=True), "ratio must be a number above 0, got True"),
        (record_with(default_us=float("nan")), "NaN is no number of JSON"),
        (record_with(pairs=-1), "pairs must be a count, got -1"),
        (record_with(problem=[]), "problem must be an object of printable texts, got []"),
        (
            record_with(problem={"data": "\x1b[2J"}),
            "problem must be an object of printable texts, got {'data': '\\x1b[2J'}",
        ),
        (record_with(cpu="\x1b[2J"), "cpu must be a printable text, got '\\x1b[2J'"),
        ("[" * 100_000, "is not a file of tuning records: "),
    ],
)
def test_a_damaged_file_is_rejected_with_what_is_wrong(tmp_path, text, reason):
    path = tmp_path / "records.json"
    path.write_text(text)
    with pytest.raises(TuningFileError) as raised:
        read_records(path)
    assert str(raised.value).startswith(f"{path} is not a file of tuning records: ")
    assert reason in str(raised.value)
    assert str(raised.value).endswith("; mend it or delete it")


def test_bytes_that_are_no_text_are_rejected(tmp_path):
    path = tmp_path / "records.json"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(TuningFileError, match="codec can't decode"):
        read_records(path)


def test_a_damaged_file_is_moved_aside_when_it_is_written(tmp_path):
    path = tmp_path / "records.json"
    for number in (1, 2):
        path.write_text(f"damage {number}")
        with pytest.warns(TuningWarning, match=rf"kept as .*records.json.damaged-{number}, and a new one is begun"):
            change_records(path, lambda before: {**before, "a class": RECORD})
        assert (tmp_path / f"records.json.damaged-{number}").read_text() == f"damage {number}"
        assert read_records(path) == {"a class": RECORD}


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "records.json"
    change_records(path, lambda before: {"a class": RECORD})
    largest, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, most))  # bytes of a file that this process writes
    try:
        with pytest.raises(OSError, match="File too large"):
            change_records(path, lambda before: {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, most))
    assert read_records(path) == {"a class": RECORD}
    assert len(list(tmp_path.iterdir())) == 2


def test_an_unsound_file_is_neither_read_nor_overwritten(tmp_path, make_unsound):
    path = tmp_path / "records.json"
    write_records(path, {"a class": RECORD})
    make_unsound(path)
    before = path.lstat()
    with pytest.raises(OSError, match=r"symbolic links|is not a plain file|by other users|more than"):
        change_records(path, lambda before: {})
    assert path.lstat() == before


def test_the_lock_file_is_not_truncated(tmp_path):
    lock = tmp_path / ".records.json.lock"
    lock.write_text("a note")
    lock.chmod(0o644)
    change_records(tmp_path / "records.json", lambda before: {"a class": RECORD})
    assert lock.read_text() == "a note"


def test_an_unsound_lock_file_is_not_locked(tmp_path, make_unsound):
    path, lock = tmp_path / "records.json", tmp_path / ".records.json.lock"
    lock.write_text("a note")
    make_unsound(lock)
    if "elsewhere" in os.listdir(tmp_path):
        lock = tmp_path / "elsewhere"
    before = lock.lstat()
    with pytest.raises(OSError, match=r"symbolic links|is not a plain file|by other users|more than"):
        change_records(path, lambda before: {"a class": RECORD})
    assert lock.lstat() == before
    assert not path.exists()


def test_several_processes_lose_no_record(python, tmp_path):
    code = """
        import sys
        from pathlib import Path
        from gathernest.kernels.tuned_schedules.records import Record, change_records
        record = Record(None, "", 1.0, 1.0, 1.0, 21, 0, "", "", {}, {})
        for number in range(20):
            change_records(Path("records.json"), lambda before: {**before, f"NAME {number}": record})
    """
    processes = [python.start(code.replace("NAME", name)) for name in "abc"]
    for process in processes:
        python.finish(process)
    assert len(read_records(tmp_path / "records.json")) == 60


def test_the_machines_file_is_named_by_cpu_and_threads(tmp_path):
    with gn.knobs.scope(cache_dir=tmp_path):
        path = tuning_records.records_path(3)
    assert path is not None
    assert path.parent == tmp_path
    assert path.name.startswith("tuning-")
    assert path.name.endswith("-3-threads.json")
    assert path.name == path.name.lower()


def test_the_knob_names_another_file_or_none(tmp_path):
    with gn.knobs.scope(tuning=tmp_path / "shipped.json"):
        assert tuning_records.records_path(2) == tmp_path / "shipped.json"
    with gn.knobs.scope(tuning="off"):
        assert tuning_records.records_path(2) is None
