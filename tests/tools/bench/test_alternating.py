"""Calls behind a peer's: who is called when, and the table; nothing on how long anything takes."""

import pytest

from gathernest.kernels.host.knobs import knobs
from gathernest.tools.bench import alternating, command
from gathernest.tools.bench.alternating import NO_PEER, Alternated, alternate, as_markdown
from gathernest.tools.bench.cases.case import Case
from gathernest.tools.bench.peers.numpy_peer import NumPy

ROWS = Case("rows", "rows", (400, 64), (500,))


def test_each_case_is_timed_behind_a_pause_and_behind_each_peer(monkeypatch):
    monkeypatch.setattr(alternating, "SETTLE_S", 0.0)
    advanced: list[int] = []
    found = alternate([ROWS], [NumPy()], rounds=2, threads=2, advance=advanced.append)
    assert [(one.case, one.behind) for one in found] == [(ROWS, NO_PEER), (ROWS, "numpy")]
    assert advanced == [1]
    names = ("alone", "first", "second", "first_alone", "waited", "quiet_us", "first_alone_us")
    assert min(getattr(one, name) for one in found for name in names) > 0


@pytest.mark.parametrize("is_one_first", [True, False])
def test_two_calls_follow_the_calls_of_the_peer_and_one_on_one_thread(monkeypatch, is_one_first):
    called: list[str] = []
    monkeypatch.setattr(alternating, "SETTLE_S", 0.0)
    with knobs.scope(num_threads=2):
        alternating._round(
            lambda: called.append(f"{knobs.num_threads}"), lambda: called.append("peer"), is_one_first=is_one_first
        )
    on_one, on_all = "2222 peer peer 1", "1111 2222 peer peer 2 2"
    wanted = (on_one, on_all) if is_one_first else (on_all, on_one)
    assert "".join(called) == "".join(wanted).replace(" ", "")


def test_table_has_the_times_their_ratios_and_the_mean_of_each_peer():
    found = [
        Alternated(ROWS, "torch", 10.0, 20.0, 15.0, 10.0, 30.0, 2.0, 1.5, 1.0, 3.0, 0.5),
        Alternated(ROWS, "torch", 10.0, 20.0, 60.0, 10.0, 30.0, 2.0, 6.0, 1.0, 3.0, 2.0),
    ]
    table = as_markdown(found, 2, 7).splitlines()
    cells = "10.0 µs | 2.00×, 20.0 µs | 1.50×, 15.0 µs | 1.00×, 10.0 µs | 3.00×, 30.0 µs | 0.50× |"
    assert table[2] == f"| rows | 400x64xf32 by 500xi64 | torch | {cells}"
    assert table[4] == "| geometric mean |  | torch |  | 2.00× | 3.00× | 1.00× | 3.00× | 1.00× |"
    assert table[-1].endswith("up to 1.00× beside it, a call waits for nobody.")


def test_the_command_prints_it(gathernest, monkeypatch):
    monkeypatch.setattr(alternating, "SETTLE_S", 0.0)
    monkeypatch.setattr(command, "QUICK_SIZE", 16)
    ended = gathernest("bench", "--alternating", "--quick", "--rounds", "1", "--case", "rows-64B", "--peers", "numpy")
    assert ended.status == 0
    assert "| rows-64B | 16x16xf32 by 16xi64 | numpy |" in ended.out
