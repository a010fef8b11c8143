"""Calls behind a peer's: who is called when, and the table; nothing on how long anything takes."""

import pytest

from gathernest.tools.bench.alternating import NO_PEER, TIMED, Alternated, as_markdown
from gathernest.tools.bench.cases import Case

ROWS = Case("rows", "rows", (400, 64), (500,))


def test_table_has_the_times_their_ratios_and_the_mean_of_each_peer():
    found = [
        Alternated.of(ROWS, "torch", [dict(zip(TIMED, seconds, strict=True))])
        for seconds in ((1e-5, 2e-5, 1.5e-5, 1e-5, 3e-5), (1e-5, 2e-5, 6e-5, 1e-5, 3e-5))
    ]
    table = as_markdown(found, 2, 7).splitlines()
    cells = "10.0 µs | 2.00×, 20.0 µs | 1.50×, 15.0 µs | 1.00×, 10.0 µs | 3.00×, 30.0 µs | 0.50× |"
    assert table[2] == f"| rows | 400x64xf32 by 500xi64 | torch | {cells}"
    assert table[4] == "| geometric mean |  | torch |  | 2.00× | 3.00× | 1.00× | 3.00× | 1.00× |"
    assert table[-1].endswith("up to 1.00× beside it, a call waits for nobody.")


@pytest.mark.thorough
def test_the_command_times_each_case_behind_a_pause_and_behind_each_peer(gathernest):
    ended = gathernest("bench", "--alternating", "--quick", "--rounds", "1", "--case", "rows-64B", "--peers", "numpy")
    assert ended.status == 0
    cells = [line.split(" | ")[:3] for line in ended.out.splitlines() if line.startswith("| rows")]
    assert cells == [["| rows-64B", "512x16xf32 by 512xi64", behind] for behind in (NO_PEER, "numpy")]
