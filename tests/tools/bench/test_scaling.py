"""One thread beside several."""

from gathernest.kernels.host.knobs import knobs
from gathernest.tools.bench.cases.case import Case
from gathernest.tools.bench.scaling import NO_MEMORY, Scaled, as_markdown, scale

ROWS = Case("rows", "latency", (400, 64), (500,))


def test_gathers_and_loops_without_memory_are_timed_on_one_thread_and_on_several(monkeypatch):
    advanced: list[int] = []
    *loops, rows = scale([ROWS], rounds=3, threads=2, advance=advanced.append)
    monkeypatch.setenv("GATHERNEST_NUM_THREADS", "1")
    assert knobs.num_threads == 1
    assert advanced == [1]
    assert [loop.bound for loop in loops] == [NO_MEMORY, NO_MEMORY]
    assert rows.bound == "latency"
    assert rows.name == "rows: 400x64xf32 by 500xi64"
    assert all(len(one.gains) == 3 and min(one.gains) > 0 for one in [*loops, rows])
    assert all(one.one_us > 0 and one.all_us > 0 for one in [*loops, rows])


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
