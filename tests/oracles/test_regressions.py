"""Cases that random search found once."""

import numpy as np
import pytest

import gathernest as gn


@pytest.mark.parametrize("interpret", [True, False])
def test_gather_elements_skips_what_indices_do_not_cover_between_dimensions_that_they_do(interpret):
    data = np.arange(8).reshape(2, 2, 2, 1)
    indices = np.zeros((2, 1, 2, 3), np.int64)
    with gn.knobs.scope(interpret=interpret, schedule=""):
        got = gn.gather_elements(data, indices, 3)
    assert got.tolist() == np.take_along_axis(data[:, :1], indices, 3).tolist()


@pytest.mark.parametrize("index_dtype", ["u1", "u4", "u8"])
def test_rows_that_are_copied_in_vectors_wrap_unsigned_indices(index_dtype):
    data = np.arange(7 * 300, dtype=np.int16).reshape(7, 300)
    indices = np.arange(0, 250, 30).astype(index_dtype)
    with gn.knobs.scope(num_threads=1):
        got = gn.gather(data, indices, bounds="wrap")
    assert got.tolist() == data[np.arange(0, 250, 30) % 7].tolist()
