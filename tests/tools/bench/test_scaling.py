"""One thread beside several, timed and predicted."""

import json
from pathlib import Path

import pytest

from gathernest.tools.bench.scaling import CASES, Scaled, as_markdown, predict, read_sockets


def test_markdown_has_the_median_the_least_and_the_greatest_gain():
    table = as_markdown([Scaled("rows", "latency", 200.4, 100.2, (1.0, 2.0, 1.8))], 2).splitlines()
    assert table[0] == "| bound by | what | 1 thread | 2 threads | gain | least and greatest |"
    assert table[2] == "| latency | rows | 200 µs | 100 µs | 1.80× | 1.00× to 2.00× |"


def test_the_command_prints_it(gathernest):
    words = ["--quick", "--case", "rows-64B,gradient-zipf", "--rounds", "1", "--threads", "2"]
    ended = gathernest("bench", "--scaling", *words)
    assert ended.status == 0
    assert "| rows | rows-64B: 512x16xf32 by 512xi64 |" in ended.out
    assert "gradient" not in ended.out


def test_one_thread_is_nothing_to_compare_with(gathernest):
    ended = gathernest("bench", "--scaling", "--threads", "1")
    assert ended.status == 1
    assert "--scaling compares several threads with one, and there is one; see gathernest doctor" in ended.err


MACHINE = Path(__file__).resolve().parents[3] / "docs" / "two_sockets.json"


def test_bandwidth_of_a_socket_bounds_its_threads_and_the_other_socket_adds_its_own():
    machine = read_sockets(MACHINE)
    assert machine.threads == [1, 2, 8, 16, 32, 64]
    models = [machine.model(threads) for threads in machine.threads]
    assert [model.memory_bytes_per_ns for model in models] == [200] * 5 + [400]
    assert [model.line_ns[3] for model in models] == pytest.approx([3.0] * 5 + [4.2])
    assert [model.launch_ns for model in models] == [550, 600, 900, 1300, 2100, 3700]
    (one,) = predict([case for case in CASES if case.name == "rows of 256 B"], machine)
    times_us = {threads: each.time_us for threads, each in one.by_threads.items()}
    assert times_us[1] > 1.9 * times_us[2] / 1.05 and times_us[16] == pytest.approx(times_us[32], rel=0.2)


def test_command_predicts_for_a_machine_and_times_nothing(gathernest):
    ended = gathernest("bench", "--scaling", "--model", str(MACHINE))
    lines = ended.out.splitlines()
    assert (ended.status, ended.err, len(lines)) == (0, "", 2 + len(CASES))
    assert lines[0] == "| bound by | what | 1 thread | 2 | 8 | 16 | 32 | 64 | largest term on 64 |"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cores": 0}, "says cores = 0, expected a number from 1"),
        ({"more": 1}, "has not the fields core, sockets, cores, launch_ns_of_thread, remote_lines"),
        ({"core": {"l9_bytes": 1}}, "has no field 'l9_bytes'"),
    ],
)
def test_file_of_another_machine_is_rejected(gathernest, tmp_path, change, reason):
    file = tmp_path / "machine.json"
    file.write_text(json.dumps(json.loads(MACHINE.read_text()) | change))
    ended = gathernest("bench", "--scaling", "--model", str(file))
    assert ended.status == 1
    assert f"--model {file} describes no machine of several sockets ({reason}" in ended.err


def test_model_is_for_scaling(gathernest):
    ended = gathernest("bench", "--model", str(MACHINE))
    assert (ended.status, "--model is for --scaling; add it, or leave --model out" in ended.err) == (2, True)
