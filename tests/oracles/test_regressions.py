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
