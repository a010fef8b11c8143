"""The suite without each pass of its schedules."""

import pytest

from gathernest.tools.bench.ablation import ALL, ablate, as_markdown
from gathernest.tools.bench.cases import Case

ROWS = Case("rows", "rows", (400, 64), (500,))


@pytest.mark.thorough
def test_each_pass_is_left_out_or_said_to_be_needed():
    advanced: list[int] = []
    (one,) = ablate([ROWS], rounds=1, threads=2, advance=advanced.append)
    assert advanced == [1]
    assert {"specialize-inner", "vectorize-inner", ALL} <= set(one.worth)
    assert "indices_o" in one.rejected["tile-loops"]
    assert all(ratio > 0 for ratio in one.worth.values())


def test_markdown_has_the_means_of_families_and_every_case():
    ablated = ablate([ROWS], rounds=1, threads=1, advance=lambda done: None)
    families, cases = as_markdown(ablated).split("\n\n")
    assert families.splitlines()[0].startswith("| family | `specialize-inner` |")
    assert families.splitlines()[2].startswith("| rows | ")
    assert cases.splitlines()[2].startswith("| rows | ")


@pytest.mark.thorough
def test_the_command_prints_it(gathernest):
    ended = gathernest("bench", "--ablation", "--quick", "--case", "rows-64B", "--rounds", "1")
    assert ended.status == 0
    assert "| rows-64B |" in ended.out
