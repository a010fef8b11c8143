"""The worked examples of OpenVINO's documents Gather-7 and Gather-8, as they print them."""

from dataclasses import dataclass

import numpy as np
import pytest

import gathernest as gn


@dataclass(frozen=True)
class Example:
    """One example: what the document gives and what it says comes out."""

    data: list
    indices: list
    axis: int
    batch_dims: int
    output: list


EXAMPLES = {
    "Example 1 with default batch_dims value": Example([1, 2, 3, 4, 5], [0, 0, 4], 0, 0, [1, 1, 5]),
    "Example 2 with non-default batch_dims value": Example(
        [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], [[0, 0, 4], [4, 0, 0]], 1, 1, [[1, 1, 5], [10, 6, 6]]
    ),
    "Example 3 with non-default batch_dims value": Example(
        [[[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], [[11, 12, 13, 14, 15], [16, 17, 18, 19, 20]]],
        [[[0, 0, 4], [4, 0, 0]], [[1, 2, 4], [4, 3, 2]]],
        2,
        2,
        [[[1, 1, 5], [10, 6, 6]], [[12, 13, 15], [20, 19, 18]]],
    ),
    "Example 4 with axis > batch_dims": Example(
        [
            [[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16], [17, 18, 19, 20]]],
            [[[21, 22, 23, 24], [25, 26, 27, 28], [29, 30, 31, 32], [33, 34, 35, 36], [37, 38, 39, 40]]],
        ],
        [[1, 2, 4], [4, 3, 2]],
        2,
        1,
        [[[[5, 6, 7, 8], [9, 10, 11, 12], [17, 18, 19, 20]]], [[[37, 38, 39, 40], [33, 34, 35, 36], [29, 30, 31, 32]]]],
    ),
    "Example 5 with negative batch_dims value": Example(
        [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], [[0, 0, 4], [4, 0, 0]], 1, -1, [[1, 1, 5], [10, 6, 6]]
    ),
}
EXAMPLES_OF_8 = {
    "Example 6 with negative indices": Example([1, 2, 3, 4, 5], [0, -2, -1], 0, 0, [1, 4, 5]),
    "Example 7 with indices out of the range": Example([1, 2, 3, 4, 5], [3, 10, -20], 0, 0, [4, 0, 0]),
}

DTYPES = pytest.mark.parametrize("dtype", ["float32", "int8"])


def check(got: np.ndarray, example: Example, dtype: str) -> None:
    wanted = np.array(example.output, dtype)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    assert got.tobytes() == wanted.tobytes()


@pytest.mark.draw(5)
@DTYPES
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("version", ["openvino.Gather-7", "openvino.Gather-8"])
def test_operator_gives_what_both_documents_print(version, name, dtype):
    example = EXAMPLES[name]
    data, indices = np.array(example.data, dtype), np.array(example.indices, np.int32)
    check(gn.ops[version](data, indices, example.axis, example.batch_dims), example, dtype)


@DTYPES
@pytest.mark.parametrize("name", EXAMPLES_OF_8)
def test_operator_gives_what_gather_8_prints(name, dtype):
    example = EXAMPLES_OF_8[name]
    data, indices = np.array(example.data, dtype), np.array(example.indices, np.int32)
    check(gn.ops["openvino.Gather-8"](data, indices, example.axis, example.batch_dims), example, dtype)


@pytest.mark.parametrize("version", ["openvino.Gather-7", "openvino.Gather-8"])
def test_operator_gives_the_shape_of_the_layer_example(version):
    """Gather-8 "Example": data (2, 64, 128), indices (2, 32, 21), axis 1, batch_dims 1."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((2, 64, 128), np.float32)
    indices = rng.integers(0, 64, (2, 32, 21), np.int32)
    got = gn.ops[version](data, indices, np.array(1), 1)
    assert got.shape == (2, 32, 21, 128)
    assert got.tobytes() == np.stack([data[batch][indices[batch]] for batch in range(2)]).tobytes()
