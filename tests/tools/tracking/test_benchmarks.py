import pytest

from gathernest.asv_bench.benchmarks.cases import SUITE
from gathernest.tools.tracking.benchmarks import MOST_RESULT_BYTES, MOST_TABLE_BYTES, chosen, small

KERNELS = [case for case in SUITE if case.family != "call"]


@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
def test_small_arrays_fit_and_have_the_same_slices(case):
    cut = small(case)
    assert cut.gathered_bytes + cut.index_bytes <= max(MOST_RESULT_BYTES, 2 * cut.row_bytes)
    assert cut.table_bytes <= MOST_TABLE_BYTES
    assert cut.row_bytes == case.row_bytes
    assert cut.rows > 1


def test_kernels_of_full_size_are_not_cut_and_others_stay():
    found = {one.name: one for one in chosen(["rows-16B", "call-kernel", "pipeline"], full_size=True)}
    assert {name: one.is_full for name, one in found.items()} == {
        "rows-16B": True,
        "call-kernel": False,
        "pipeline": False,
    }
    assert found["rows-16B"].question["cut"] == found["rows-16B"].question["of"]
    assert found["call-kernel"].question["sets"] == 1
    assert found["pipeline"].question == {"of": "pipeline"}
