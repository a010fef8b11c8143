import pytest

from gathernest.tools.tracking.causes import changed_counts, counts_by_name


def test_counts_that_changed_are_listed_largest_first():
    before = counts_by_name({"calls": {"cse": 100, "gone": 1}, "modules": {"import": 4}, "why not": "", "steps": 1000})
    after = counts_by_name({"calls": {"cse": 150}, "modules": {"import": 2}, "why not": "", "steps": 1004})
    found = changed_counts(before, after)
    assert found.summary == "2 of 3 counts changed by more than 0.5%"
    assert found.lines == ("calls cse: 100 → 150", "modules import: 4 → 2")
    assert (found.worse, found.is_known) == (("calls cse",), True)


def test_instructions_may_move_by_sixty():
    before = counts_by_name({"instructions": {"call gather": 1000, "call gather out": 1000}})
    after = counts_by_name({"instructions": {"call gather": 1060, "call gather out": 1061}})
    assert changed_counts(before, after).worse == ("instructions call gather out",)


# A side's exact counts, as the benchmarks of asv give them.
COUNTS = "class Counted:\n    def setup_cache(self):\n        return {counts}\n"


@pytest.mark.parametrize(
    ("before", "after", "status", "said"),
    [
        ({"calls": 100}, {"calls": 100}, 0, "0 of 1 counts changed by more than 0.5%"),
        ({"calls": 100}, {"calls": 90}, 0, "1 of 1 counts changed by more than 0.5%"),
        ({"calls": 100}, {"calls": 110}, 1, "calls: 100 → 110"),
        ({"calls": 100}, {"steps": 110}, 3, "0 of 0 counts changed by more than 0.5%"),
        ({"calls": 100}, "1 / 0", 3, "head cannot be counted: ZeroDivisionError: division by zero"),
    ],
)
def test_counts_are_compared_without_a_clock(gathernest, repository, before, after, status, said):
    for name, counts in (("one", before), ("two", after)):
        benchmarks = repository.folder / "asv_bench" / "benchmarks"
        benchmarks.mkdir(parents=True, exist_ok=True)
        (benchmarks / "__init__.py").write_text("")
        (benchmarks / "counts.py").write_text(COUNTS.replace("{counts}", str(counts)))
        repository.commit(name)
    ended = gathernest("bench", "compare", "one", "two", "--what", "counts")
    assert ended.status == status
    assert said in ended.out
