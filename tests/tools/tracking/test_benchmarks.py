import numpy as np
import pytest

from gathernest.asv_bench.benchmarks.cases import SUITE
from gathernest.tools.tracking.benchmarks import BENCHMARKS, MOST_RESULT_BYTES, MOST_TABLE_BYTES, chosen, small

KERNELS = [case for case in SUITE if case.family != "call"]


@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
def test_small_arrays_fit_and_have_the_same_slices(case):
    cut = small(case)
    assert cut.gathered_bytes + cut.index_bytes <= max(MOST_RESULT_BYTES, 2 * cut.row_bytes)
    assert cut.table_bytes <= MOST_TABLE_BYTES
    assert cut.row_bytes == case.row_bytes
    assert cut.rows > 1


def test_small_arrays_are_those_of_a_gather(tmp_path):
    for name in ("tiny-batches-rows", "elements-last-axis", "nd-pairs-rows"):
        BENCHMARKS[name].write_arrays(tmp_path)
        data, indices = (np.load(tmp_path / name / f"{array}.npy") for array in ("data", "indices"))
        cut = small(BENCHMARKS[name].case)
        assert (data.shape, indices.shape[1:]) == (cut.data, cut.indices)
        assert indices.max() < max(cut.data[axis] for axis in cut.indexed)


def test_kernels_of_full_size_have_no_files_and_others_stay(tmp_path):
    found = {one.name: one for one in chosen(["rows-16B", "call-kernel", "pipeline"], full_size=True)}
    assert {name: one.is_full for name, one in found.items()} == {
        "rows-16B": True,
        "call-kernel": False,
        "pipeline": False,
    }
    for one in found.values():
        one.write_arrays(tmp_path)
    assert [folder.name for folder in tmp_path.iterdir()] == ["call-kernel"]
