"""ONNX Gather 1, 11 and 13: the examples of their documents, and ONNX's own backend suite. Bytes, not tolerances."""

import numpy as np
import pytest

import gathernest as gn

VERSIONS = pytest.mark.parametrize("version", ["onnx.Gather-1", "onnx.Gather-11", "onnx.Gather-13"])


def same_bytes(got: np.ndarray, wanted: np.ndarray) -> bool:
    return (got.shape, got.dtype) == (wanted.shape, wanted.dtype) and got.tobytes() == wanted.tobytes()


@VERSIONS
def test_operator_gives_the_example_of_axis_0(version):
    data = np.array([[1.0, 1.2], [2.3, 3.4], [4.5, 5.7]], np.float32)
    wanted = np.array([[[1.0, 1.2], [2.3, 3.4]], [[2.3, 3.4], [4.5, 5.7]]], np.float32)
    assert same_bytes(gn.ops[version](data, [[0, 1], [1, 2]]), wanted)


@VERSIONS
def test_operator_gives_the_example_of_axis_1_in_the_shape_that_version_13_prints(version):
    """Versions 1 and 11 print it with the brackets in the wrong places; their formula gives (3, 1, 2) as well."""
    data = np.array([[1.0, 1.2, 1.9], [2.3, 3.4, 3.9], [4.5, 5.7, 5.9]], np.float32)
    wanted = np.array([[[1.0, 1.9]], [[2.3, 3.9]], [[4.5, 5.9]]], np.float32)
    assert same_bytes(gn.ops[version](data, [[0, 2]], axis=1), wanted)


@VERSIONS
@pytest.mark.parametrize("axis", [0, 1])
def test_operator_gives_the_examples_gather_0_and_gather_1(version, axis):
    data = np.random.default_rng(0).standard_normal((5, 4, 3, 2), np.float32)
    indices = np.array([0, 1, 3])
    assert same_bytes(gn.ops[version](data, indices, axis=axis), np.take(data, indices, axis=axis))


@VERSIONS
def test_operator_gives_the_example_gather_2d_indices(version):
    data = np.random.default_rng(0).standard_normal((3, 3), np.float32)
    indices = np.array([[0, 2]])
    assert same_bytes(gn.ops[version](data, indices, axis=1), np.take(data, indices, axis=1))


@VERSIONS
def test_operator_gives_the_example_gather_negative_indices(version):
    """The document prints `[0. 1. 0.]`: -10 is the inclusive lower end on an axis of 10."""
    data = np.arange(10).astype(np.float32)
    assert same_bytes(gn.ops[version](data, np.array([0, -9, -10])), np.array([0, 1, 0], np.float32))


@pytest.mark.parametrize("kind", ["gather_0", "gather_1", "gather_2d_indices", "gather_negative_indices"])
def test_reference_evaluator_with_our_gather_gives_the_outputs_of_the_node_tests(suite, kind):
    case = suite.node_cases[f"test_{kind}"]
    before = len(suite.calls)
    for inputs, outputs in case.data_sets:
        assert same_bytes(suite.run(case.model, inputs)[0], outputs[0])
    assert suite.calls[before:] == ["Gather"]


@pytest.mark.parametrize(
    "name",
    [
        "gather_elements_0",
        "gather_elements_1",
        "gather_elements_negative_indices",
        "gathernd_example_int32",
        "gathernd_example_float32",
        "gathernd_example_int32_batch_dim1",
    ],
)
def test_reference_evaluator_gives_the_outputs_of_the_node_tests_of_the_other_gathers(suite, name):
    case = suite.node_cases[f"test_{name}"]
    for inputs, outputs in case.data_sets:
        assert same_bytes(suite.run(case.model, inputs)[0], outputs[0].astype(outputs[0].dtype))


@pytest.mark.parametrize("name", ["test_Embedding", "test_Embedding_sparse"])
def test_reference_evaluator_with_our_gather_gives_the_outputs_of_the_embedding_models(suite, name):
    model, inputs, outputs = suite.converted(name)
    assert same_bytes(suite.run(model, inputs)[0], outputs[0])


@pytest.mark.thorough
def test_every_model_with_a_gather_inside_gives_the_same_bytes_as_with_onnx_s_own(suite):
    reached = 0
    for case in suite.cases_with_a_gather:
        inputs, _ = case.data_sets[0]
        before = len(suite.calls)
        ours, theirs = (suite.run(case.model, inputs, ours=ours) for ours in (True, False))
        reached += len(suite.calls) > before
        for got, wanted in zip(ours, theirs, strict=True):
            assert same_bytes(np.asarray(got), np.asarray(wanted)), case.name
    assert reached >= 20
