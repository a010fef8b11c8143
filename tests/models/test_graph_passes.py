"""The passes of the pipeline `graph` on models whose constants are weights; filecheck files show them on text."""

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

import gathernest as gn
from gathernest.ir.modules.context import parse_module, print_generic
from gathernest.kernels import model as model_module
from gathernest.kernels.gather import run_operator as run
from gathernest.lowering.pipeline import run_pipeline
from gathernest.lowering.registry import GRAPH_NAMES

RNG = np.random.default_rng(2)
X = RNG.random((300, 5), dtype=np.float32)


def chain(make, first, second, axes=(0, 0), shape="300x5"):
    nodes = [
        make_node("Gather", ["x", "i"], ["t"], name="inner", axis=axes[0]),
        make_node("Gather", ["t", "j"], ["y"], name="outer", axis=axes[1]),
    ]
    rank = 2 + first.ndim - 1 + second.ndim - 1
    output = "x".join(["?"] * rank + ["f32"])
    return make(nodes, {"x": f"{shape}xf32"}, {"y": output}, {"i": first, "j": second})


@pytest.mark.parametrize(
    ("first", "second", "axes", "count"),
    [
        (RNG.integers(-300, 300, 200), RNG.integers(-200, 200, 100), (0, 0), 1),
        (RNG.integers(-300, 300, (20, 10)), RNG.integers(-10, 10, 10), (0, 1), 1),
        (RNG.integers(0, 300, (20, 10)), np.array(3), (0, 0), 1),
        (RNG.integers(0, 300, 200), RNG.integers(0, 5, 9), (0, 1), 2),
        (RNG.integers(0, 300, (20, 10)), RNG.integers(0, 10, 90), (0, 1), 2),
        (np.array(7), RNG.integers(0, 5, 9), (0, 0), 1),
    ],
    ids=["large", "within", "row", "other axis", "would grow", "sliced"],
)
def test_gathers_are_composed_where_that_is_legal(load, make, first, second, axes, count):
    model = load.checked(chain(make, first, second, axes), {"x": X})
    assert str(model).count("gather.gather ") == count


def test_dynamic_axis_keeps_its_check_and_stays(load, make):
    model = load.checked(chain(make, np.array([4, -1, 0]), np.array([2, -1]), shape="Nx5"), {"x": X})
    text = str(model)
    assert "bounds error" in text
    assert text.count("gather.gather ") + text.count("graph.slice") == 2


@pytest.mark.parametrize(
    ("values", "rows", "modes"),
    [([4, 1, 0], 5, ["unchecked"]), ([4, 1, 0], 4, ["error"]), ([4, -1, 0], 5, ["error"])],
    ids=["inside", "one outside", "one negative"],
)
def test_constants_on_an_axis_that_is_long_enough_are_not_checked_again(load, make, monkeypatch, values, rows, modes):
    seen = []
    monkeypatch.setattr(model_module, "run_operator", lambda *args, **rest: seen.append(args[3]) or run(*args, **rest))
    nodes, shapes = [make_node("Gather", ["x", "i"], ["y"])], ({"x": "Nx5xf32"}, {"y": "3x5xf32"})
    model = load(make(nodes, *shapes, {"i": np.array(values)}))
    if max(values) < rows:
        assert model(x=X[:rows])["y"].tobytes() == X[:rows][values].tobytes()
    else:
        with pytest.raises(gn.BoundsError, match=r"index 4 at position \(0,\).* out of range \[-4, 3\]"):
            model(x=X[:rows])
    assert seen == modes


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_constant_indices_of_every_type_become_unchecked(load, make, dtype):
    values = np.array([5, 99, 5] if np.dtype(dtype).kind == "u" else [5, -1, 5]).astype(dtype)
    nodes = [make_node("Gather", ["x", "i"], ["y"])]
    model = load(make(nodes, {"x": "300x5xf32"}, {"y": "3x5xf32"}, {"i": values}))
    assert "bounds unchecked" in str(model)
    assert model(x=X)["y"].tobytes() == X[values.astype(np.int64)].tobytes()


def test_gather_elements_and_gather_nd_with_constant_indices(load, make, check_stages):
    elements, tuples = RNG.integers(-300, 300, (40, 5)), RNG.integers(-5, 5, (70, 2))
    nodes = [make_node("GatherElements", ["x", "i"], ["a"], axis=0), make_node("GatherND", ["x", "j"], ["b"])]
    proto = make(nodes, {"x": "300x5xf32"}, {"a": "40x5xf32", "b": "70xf32"}, {"i": elements, "j": tuples})
    model = load(proto)
    check_stages(model, {"x": X})
    got = model(x=X)
    assert got["a"].tobytes() == np.take_along_axis(X, elements, 0).tobytes()
    assert got["b"].tobytes() == X[tuples[:, 0], tuples[:, 1]].tobytes()
    assert str(model).count("bounds unchecked") == 2
    assert {"i_checked", "j_checked"} <= set(model.weights)


def test_casts_of_constant_indices_are_folded_away(load, make):
    nodes = [
        make_node("Cast", ["i"], ["c"], to=TensorProto.INT64),
        make_node("Unsqueeze", ["c", "a"], ["u"]),
        make_node("Gather", ["x", "u"], ["y"]),
    ]
    indices = RNG.integers(-300, 300, 100).astype(np.int32)
    proto = make(nodes, {"x": "300x5xf32"}, {"y": "1x100x5xf32"}, {"i": indices, "a": np.array([0])})
    assert "graph." not in str(load.checked(proto, {"x": X})).replace("graph.weight", "")


def test_views_of_weights_take_no_memory(load, make):
    nodes = [make_node("Reshape", ["w", "s"], ["r"]), make_node("Gather", ["r", "i"], ["y"])]
    proto = make(nodes, {"i": "2xi64"}, {"y": "2x2x5xf32"}, {"w": X, "s": np.array([-1, 2, 5])})
    model = load.checked(proto, {"i": np.array([149, -150])})
    assert np.shares_memory(model.weights["w"], model.weights["r"])


@pytest.mark.parametrize("indices", [[3], [[2]], 1, [0, 2, 4], [4, 3], [[[1], [3]]], [0, 1, 2, 3, 4]])
def test_runs_become_slices(load, make, indices):
    indices = np.array(indices)
    output = "x".join(["?"] * (1 + indices.ndim) + ["f32"])
    proto = make([make_node("Gather", ["x", "i"], ["y"], axis=1)], {"x": "Nx5xf32"}, {"y": output}, {"i": indices})
    assert "gather.gather " not in str(load.checked(proto, {"x": X[:7]}))


@pytest.mark.parametrize("name", GRAPH_NAMES)
def test_pass_changes_nothing_the_second_time(load, make, name):
    model = load(chain(make, np.array([4, -1, 0, 0]), np.array([2, -1])))
    names = list(model.stages)
    module = parse_module(model.stages[names[names.index(name)]])
    text = str(module)
    run_pipeline(module, name)
    assert str(module) == text


@pytest.mark.parametrize("name", GRAPH_NAMES)
def test_empty_module_passes_through(name):
    module = parse_module("builtin.module {\n}")
    run_pipeline(module, name)
    assert str(module) == "builtin.module {\n}"


def test_every_stage_reads_back_from_generic_syntax(load, make):
    model = load(chain(make, RNG.integers(0, 300, 200), np.array([2, -1])))
    for text in model.stages.values():
        module = parse_module(text)
        assert str(parse_module(print_generic(module))) + "\n" == text


def test_pass_without_the_table_leaves_weights_alone():
    text = (
        'func.func @main(%x: tensor<5xf32>) -> tensor<2xf32> {\n  %i = graph.weight name "i" : tensor<2xi64>\n  '
        "%r = gather.gather %x, %i axis 0 batch_dims 0 bounds error : tensor<5xf32>, tensor<2xi64> -> tensor<2xf32>\n  "
        "func.return %r : tensor<2xf32>\n}"
    )
    module = parse_module(text)
    before = str(module)
    run_pipeline(module, "graph")
    assert str(module) == before


def test_size_that_a_cast_cannot_hold_wraps_as_when_it_runs(load, make):
    nodes = [
        make_node("Shape", ["x"], ["s"]),
        make_node("Cast", ["s"], ["c"], to=TensorProto.INT8),
        make_node("Cast", ["c"], ["y"], to=TensorProto.INT64),
    ]
    model = load.checked(make(nodes, {"x": "300x5xf32"}, {"y": "2xi64"}), {"x": X})
    assert model(x=X)["y"].tolist() == [44, 5]


def test_sizes_reshaped_to_sizes_that_only_the_run_knows(load, make):
    nodes = [
        make_node("Shape", ["x"], ["s"]),
        make_node("Shape", ["z"], ["t"]),
        make_node("Reshape", ["s", "t"], ["y"]),
    ]
    proto = make(nodes, {"x": "?x5xf32", "z": "?x1xf32"}, {"y": "?x?xi64"})
    model = load.checked(proto, {"x": X, "z": X[:2, :1]})
    assert model(x=X, z=X[:2, :1])["y"].tolist() == [[300], [5]]
