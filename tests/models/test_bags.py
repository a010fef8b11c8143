"""Embedding bags in ONNX models: loops that torch exports, reductions of gathered rows; and errors."""

import importlib.util

import numpy as np
import onnx
import pytest
from onnx.helper import make_graph, make_node, make_tensor, make_tensor_value_info

import gathernest as gn

from .numpy_bags import INDICES, STARTS, TABLE, WEIGHTS, by_four, of_bags, one_by_one, same

HAS_RUNTIME = importlib.util.find_spec("onnxruntime") is not None


def theirs(model, inputs):
    """Return what ONNX Runtime gives with two threads; None without it."""
    if not HAS_RUNTIME:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 2, 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)


def body(kind="ReduceSum", *, weighted=False, changed=()):
    """Return the body that torch's script exporter writes; `changed` replaces nodes by the names of their outputs."""
    axes = {"ReduceSum": {}, "ReduceMean": {"axes": [0]}, "ReduceMax": {"axes": [0]}}[kind]
    nodes = {
        "zero": make_node("Constant", [], ["zero"], value=make_tensor("", onnx.TensorProto.INT64, [1], [0])),
        "one": make_node("Constant", [], ["one"], value=make_tensor("", onnx.TensorProto.INT64, [1], [1])),
        "s": make_node("Gather", ["starts", "i"], ["s"], axis=0),
        "e": make_node("Gather", ["ends", "i"], ["e"], axis=0),
        "first": make_node("Unsqueeze", ["s", "zero"], ["first"]),
        "last": make_node("Unsqueeze", ["e", "zero"], ["last"]),
        "bag": make_node("Slice", ["indices", "first", "last", "origin"], ["bag"]),
        "rows": make_node("Gather", ["table", "bag"], ["rows"], axis=0),
        "factors": make_node("Slice", ["weights", "first", "last", "origin"], ["factors"]),
        "column": make_node("Unsqueeze", ["factors", "one"], ["column"]),
        "times": make_node("Mul", ["rows", "column"], ["times"]),
        "sum": make_node(kind, ["times" if weighted else "rows", *["zero"][: not axes]], ["sum"], keepdims=0, **axes),
        "goes_on": make_node("Cast", ["true"], ["goes_on"], to=onnx.TensorProto.BOOL),
    }
    if not weighted:
        del nodes["factors"], nodes["column"], nodes["times"]
    nodes |= {node.output[0]: node for node in changed}
    number = make_tensor_value_info("i", onnx.TensorProto.INT64, [])
    flags = [make_tensor_value_info(name, onnx.TensorProto.BOOL, []) for name in ("on", "goes_on")]
    result = make_tensor_value_info("sum", onnx.TensorProto.FLOAT, ["columns"])
    return make_graph(list(nodes.values()), "body", [number, flags[0]], [flags[1], result])


def looped(make, kind="ReduceSum", *, weighted=False, changed=(), true=True, trips=None, graph=None, table=TABLE):
    nodes = [
        make_node("Shape", ["indices"], ["length"]),
        make_node("Concat", ["starts", "length"], ["both"], axis=0),
        make_node("Slice", ["both", "second", "end", "origin"], ["ends"]),
        make_node("Shape", ["ends"], ["count"]),
        make_node("Squeeze", ["count"], ["bags"]),
        make_node(
            "Loop",
            [trips or "bags", "true"],
            ["y"],
            name="loop",
            body=graph or body(kind, weighted=weighted, changed=changed),
        ),
    ]
    inputs = {"indices": "nxi64", "starts": "bxi64"} | ({"weights": "nxf32"} if weighted else {})
    constants = {"table": table, "true": np.array(true), "origin": np.array([0])}
    constants |= {"second": np.array([1]), "end": np.array([2**63 - 1]), "four": np.array(4)}
    return make(nodes, inputs, {"y": "bx20xf32"}, constants, opset=13)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMean", "ReduceMax"])
def test_loop_of_an_embedding_bag_gives_the_bytes_of_its_runtime_at_every_stage(load, make, check_stages, kind):
    model = looped(make, kind)
    for starts in (STARTS, np.arange(0, 40, 8), np.array([3, 9]), np.array([40]), np.zeros(0, np.int64)):
        inputs = {"indices": INDICES, "starts": starts}
        loaded = load(model)
        check_stages(loaded, inputs)
        got = loaded.run(inputs)["y"]
        wanted = of_bags(TABLE, INDICES, starts, reduce=kind[6:].lower()) if len(starts) else TABLE[:0]
        assert same(got, wanted)
        if len(starts) and (found := theirs(model, inputs)):
            assert same(got, found[0])
    assert "graph.bags" in str(loaded)


def test_weighted_loop_multiplies_rows_before_they_are_added(load, make, check_stages):
    model, inputs = looped(make, weighted=True), {"indices": INDICES, "starts": STARTS, "weights": WEIGHTS}
    loaded = load(model)
    check_stages(loaded, inputs)
    assert same(loaded.run(inputs)["y"], of_bags(TABLE, INDICES, STARTS, WEIGHTS))
    if found := theirs(model, inputs):
        assert same(loaded.run(inputs)["y"], found[0])


def test_loop_that_stops_at_fewer_bags_than_there_are_gives_those(load, make):
    inputs = {"indices": INDICES, "starts": STARTS}
    model = looped(make, trips="four")
    assert same(load(model).run(inputs)["y"], of_bags(TABLE, INDICES, STARTS)[:4])
    with pytest.raises(gn.BoundsError, match=r"node 'loop': index 3 at position \(3,\) of indices is out of range"):
        load(model).run({"indices": INDICES, "starts": STARTS[:3]})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (make_node("Gather", ["table", "bag"], ["rows"], axis=1), "gathers along another axis"),
        (make_node("Gather", ["indices", "on"], ["s"], axis=0), "takes other bags than its iterations"),
        (make_node("Slice", ["indices", "first", "last", "one"], ["bag"]), "slices another axis"),
        (make_node("Slice", ["indices", "first", "last", "zero", "second_"], ["bag"]), "has no constant axes"),
        (make_node("ReduceSum", ["rows", "zero"], ["sum"]), "reduces other axes than the first"),
        (make_node("ReduceSum", ["rows", "one"], ["sum"], keepdims=0), "reduces other axes than the first"),
        (make_node("Relu", ["rows"], ["sum"]), "has no ReduceSum or ReduceMean or ReduceMax"),
        (make_node("Relu", ["table"], ["rows"]), "has no Gather where one is expected"),
        (make_node("Unsqueeze", ["s", "one"], ["first"]), "slices by no vector"),
        (make_node("Not", ["on"], ["goes_on"]), "has no Cast or Identity"),
        (make_node("Identity", ["goes_on"], ["goes_on"]), "computes more than bags"),
        (make_node("Cast", ["false"], ["goes_on"], to=9), "input 'false' is not defined"),
        (make_node("Slice", ["bag", "first", "last", "origin"], ["bag"]), "computes more than bags"),
        (make_node("Gather", ["table"], ["rows"], axis=0), "lacks an input"),
        (make_node("Split", ["rows"], ["a", "b"]), "has a Split"),
    ],
)
def test_other_loops_are_rejected_in_one_line(load, make, changed, message):
    second = make_node("Identity", ["zero"], ["second_"])
    with pytest.raises(gn.ModelError) as raised:
        load(looped(make, changed=[second, changed]))
    text = str(raised.value)
    assert text.startswith("node 'loop' (Loop): ") and message in text and "\n" not in text


def test_loop_whose_weights_are_not_those_of_its_indices_is_rejected(load, make):
    other = make_node("Slice", ["weights", "last", "first", "origin"], ["factors"])
    with pytest.raises(gn.ModelError, match="this one slices weights otherwise than indices"):
        load(looped(make, weighted=True, changed=[other]))


@pytest.mark.parametrize("table", [TABLE[:, 0], TABLE.reshape(50, 4, 5)], ids=["scalars", "slices"])
@pytest.mark.parametrize("weighted", [False, True])
def test_loop_over_no_matrix_is_rejected(load, make, weighted, table):
    """Weights would multiply other elements, and scalars are added in another order."""
    with pytest.raises(gn.ModelError, match="this one gathers from no matrix; gathernest"):
        load(looped(make, weighted=weighted, table=table))


def test_product_of_three_is_rejected(load, make):
    three = make_node("Mul", ["rows", "column", "column"], ["times"])
    with pytest.raises(gn.ModelError, match="multiplies otherwise than by a column"):
        load(looped(make, weighted=True, changed=[three]))


def test_bags_that_overlap_have_a_limit(load, make):
    ends = make_node("Gather", ["stops", "i"], ["e"], axis=0)
    model = looped(make, changed=[ends])
    model.graph.input.append(make_tensor_value_info("stops", onnx.TensorProto.INT64, ["b"]))
    loaded, starts, stops = load(model), np.array([0, 1]), np.array([40, 30])
    got = loaded.run({"indices": INDICES, "starts": starts, "stops": stops})["y"]
    assert same(got, of_bags(TABLE, INDICES, starts, ends=stops))
    count = 20_000
    inputs = {"indices": np.zeros(count, np.int64), "starts": np.zeros(count, np.int64), "stops": np.full(count, count)}
    with pytest.raises(
        gn.ModelError, match=r"node 'loop': the indices of all bags of shape \(400000000,\) .* over the"
    ):
        loaded.run(inputs)


def test_rows_of_all_bags_have_the_limit_of_gathered_ones(load, make):
    loaded, indices = load(looped(make), max_tensor_bytes=4500), np.zeros(60, np.int64)
    few = loaded.run({"indices": indices[:56], "starts": STARTS})["y"]
    assert same(few, of_bags(TABLE, indices[:56], STARTS))
    message = (
        r"node 'loop': the rows of all bags of shape \(60, 20\) and float32 has 4800 bytes, over the limit "
        "max_tensor_bytes=4500; raise it if the model is to be trusted"
    )
    with pytest.raises(gn.ModelError, match=message):
        loaded.run({"indices": indices, "starts": STARTS})


def test_loop_that_may_end_early_is_rejected(load, make):
    with pytest.raises(gn.ModelError, match="this one may end early; gathernest"):
        load(looped(make, true=False))


def test_loop_that_carries_values_or_lacks_a_body_is_rejected(load, make):
    empty = make_graph([], "body", [], [])
    with pytest.raises(gn.ModelError, match="this one carries values"):
        load(looped(make, graph=empty))
    model = looped(make)
    del model.graph.node[-1].attribute[:]
    with pytest.raises(gn.ModelError, match="attribute 'body' is missing"):
        load(model)


def test_constant_of_a_body_is_read_from_no_other_file(load, make, tmp_path):
    (tmp_path / "axes.bin").write_bytes(bytes(8))
    model = looped(make)
    tensor = model.graph.node[-1].attribute[0].g.node[0].attribute[0].t
    tensor.ClearField("int64_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="axes.bin")
    with pytest.raises(gn.ModelError, match=r"a constant of its body lies in another file, 'axes\.bin'"):
        load(model)


@pytest.mark.parametrize("starts", [[0, 9, 8], [-1, 4], [0, 41]])
def test_bags_outside_of_the_indices_are_rejected(load, make, starts):
    with pytest.raises(gn.ModelError, match=r"node 'loop': bag \d is from -?\d+ to \d+, and bags lie within the 40"):
        load(looped(make)).run({"indices": INDICES, "starts": np.array(starts)})


def test_only_indices_in_bags_are_checked(load, make):
    model, indices = load(looped(make)), INDICES.copy()
    indices[0] = 50
    got = model.run({"indices": indices, "starts": STARTS[1:]})["y"]
    assert same(got, of_bags(TABLE, indices, STARTS[1:]))
    indices[[0, 8]] = 0, -51
    with pytest.raises(gn.BoundsError, match=r"node 'loop': index -51 is out of range \[-50, 49\] for a table of 50"):
        model.run({"indices": indices, "starts": STARTS})


@pytest.mark.draw(3)
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMean"])
@pytest.mark.parametrize("shape", [(40,), (8, 5), (3, 13), (2, 2, 10), (1, 40), (40, 1), (0, 3), (3, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reduction_of_gathered_rows_has_the_order_of_onnx_runtime(load, make, check_stages, kind, shape, dtype):
    table, indices = TABLE.astype(dtype), INDICES[: int(np.prod(shape))].reshape(shape)
    keep = len(shape) % 2
    axes = {"ReduceSum": {}, "ReduceMean": {"axes": [-2]}}[kind]
    nodes = [
        make_node("Gather", ["table", "i"], ["rows"]),
        make_node(kind, ["rows", *["axes"][: not axes]], ["y"], keepdims=keep, **axes),
    ]
    element = "f32" if dtype is np.float32 else "f64"
    dims = "x".join(f"d{axis}" for axis in range(len(shape)))
    out = "x".join([*dims.split("x")[:-1], *["1"] * keep, "20", element])
    model = make(nodes, {"i": f"{dims}xi64"}, {"y": out}, {"table": table, "axes": np.array([-2])}, opset=13)
    loaded = load(model)
    check_stages(loaded, {"i": indices})
    assert "gather.gather" not in str(loaded)
    got = loaded.run({"i": indices})["y"]
    bags = indices.reshape(int(np.prod(shape[:-1])), shape[-1])
    order = by_four if len(bags) > 1 and dtype is np.float32 else one_by_one
    sums = np.array([order(table[bag]) for bag in bags], dtype)
    wanted = sums / dtype(max(shape[-1], 1)) if kind == "ReduceMean" else sums
    assert same(got, wanted.reshape(*shape[:-1], *[1] * keep, 20))
    if indices.size and (found := theirs(model, {"i": indices})):
        assert same(got, found[0])


@pytest.mark.parametrize(
    ("kind", "shape", "name", "indices"),
    [
        ("ReduceSum", "40x9", "gather_reduce", (40, 2, 4)),
        ("ReduceMean", "3x2x9", "gather_reduce", (6, 2, 4)),
        ("ReduceSum", "?x3", "gather_reduce", (128, 3)),
        ("ReduceMean", "1x9", "gather_reduce", (1, 9)),
    ],
)
def test_bags_are_among_the_gathers(load, make, kind, shape, name, indices):
    axes = {"ReduceSum": {}, "ReduceMean": {"axes": [-2]}}[kind]
    nodes = [
        make_node("Gather", ["table", "i"], ["rows"]),
        make_node(kind, ["rows", *["axes"][: not axes]], ["y"], keepdims=0, name="bags", **axes),
    ]
    out = "x".join([*shape.split("x")[:-1], "20xf32"])
    model = make(nodes, {"i": f"{shape}xi64"}, {"y": out}, {"table": TABLE, "axes": np.array([-2])}, opset=13)
    (found,) = load(model).gathers().items()
    assert (found[0], found[1].name, found[1].indices.shape) == ("bags", name, indices)


@pytest.mark.parametrize(
    ("kind", "weighted", "name", "places"),
    [
        ("ReduceSum", True, "gather_weighted", (128, 128, 2)),
        ("ReduceSum", False, "gather_reduce", (128, 128)),
        ("ReduceMax", False, "gather_max", (128, 128)),
    ],
)
def test_bags_of_a_loop_are_among_the_gathers(load, make, kind, weighted, name, places):
    found = load(looped(make, kind, weighted=weighted)).gathers(128)
    bags = [problem for problem in found.values() if problem.reduces]
    assert [(problem.name, problem.indices.shape) for problem in bags] == [(name, places)]


def test_sums_of_no_rows_are_zeros(load, make):
    nodes = [make_node("Gather", ["t", "i"], ["x"]), make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)]
    inputs = {"t": "?x20xf32", "i": "?x?xi64"}
    loaded = load(make(nodes, inputs, {"y": "?x20xf32"}, {"axes": np.array([1])}, opset=13))
    got = loaded.run({"t": TABLE[:0], "i": np.zeros((3, 0), np.int64)})["y"]
    assert same(got, np.zeros((3, 20), np.float32))


def test_bags_of_constants_are_added_when_the_model_runs(load, make):
    nodes = [
        make_node("Gather", ["t", "i"], ["x"], name="g"),
        make_node("ReduceMean", ["x"], ["y"], axes=[0], name="m"),
    ]
    loaded = load(make(nodes, {}, {"y": "1x20xf32"}, {"t": TABLE, "i": np.array([1, 50])}, opset=13))
    assert "graph.bags" in str(loaded)
    with pytest.raises(gn.BoundsError, match="node 'm': index 50 is out of range"):
        loaded.run({})


def test_gather_that_others_read_too_stays(load, make):
    nodes = [make_node("Gather", ["t", "i"], ["x"]), make_node("ReduceMean", ["x"], ["y"], axes=[0], keepdims=0)]
    loaded = load(make(nodes, {"i": "6xi64"}, {"x": "6x20xf32", "y": "20xf32"}, {"t": TABLE}, opset=13))
    found = loaded(INDICES[:6])
    assert same(found["x"], TABLE[INDICES[:6]]) and same(found["y"], one_by_one(found["x"]) / np.float32(6))


@pytest.mark.parametrize(
    ("kind", "axes", "axis", "table"),
    [
        ("ReduceMean", [1], 0, TABLE),
        ("ReduceMean", [0, 1], 0, TABLE),
        ("ReduceMean", [0], 1, TABLE),
        ("ReduceMean", [0], 0, TABLE[:, 0]),
        ("ReduceMean", [0], 0, TABLE.astype(np.float16)),
        ("ReduceMean", [0], 0, TABLE.astype(np.int32)),
    ],
)
def test_other_sums_and_means_are_rejected_in_one_line(load, make, kind, axes, axis, table):
    nodes = [
        make_node("Gather", ["t", "i"], ["x"], axis=axis),
        make_node(kind, ["x"], ["y"], axes=axes, keepdims=0, name="mean"),
    ]
    element = {"float32": "f32", "float16": "f16", "int32": "i32"}[table.dtype.name]
    with pytest.raises(gn.ModelError, match=r"node 'mean' \(ReduceMean\): a mean of .* depends on their order; supp"):
        load(make(nodes, {"i": "6xi64"}, {"y": f"?x{element}" if table.ndim > 1 else element}, {"t": table}, opset=13))
