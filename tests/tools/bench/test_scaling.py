"""One thread beside several, timed in turn."""

from gathernest.tools.bench.scaling import Scaled, as_markdown


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
