"""Embedding bags in models: loops that torch exports, layers of OpenVINO, reductions of gathered rows; and errors."""

import importlib.util

import numpy as np
import onnx
import pytest
from onnx.helper import make_graph, make_node, make_tensor, make_tensor_value_info

import gathernest as gn

RNG = np.random.default_rng(3)
TABLE = RNG.standard_normal((50, 20)).astype(np.float32)
INDICES = RNG.integers(-50, 50, 40)
STARTS = np.array([0, 7, 7, 30, 31])
WEIGHTS = RNG.standard_normal(40).astype(np.float32)
HAS_RUNTIME = importlib.util.find_spec("onnxruntime") is not None


def one_by_one(rows):
    total = np.zeros(rows.shape[1:], rows.dtype)
    for row in rows:
        total = total + row
    return total


def by_four(rows):
    total, start, group = np.zeros(rows.shape[1:], rows.dtype), 0, 4
    while start < len(rows):
        group = next(size for size in (4, 2, 1) if size <= min(group, len(rows) - start))
        total, start = total + one_by_one(rows[start : start + group]), start + group
    return total


def of_bags(table, indices, starts, weights=None, reduce="sum", ends=None):
    """Return what bags give, by NumPy."""
    ends = np.append(starts[1:], len(indices)) if ends is None else ends
    factors = np.ones(len(indices), table.dtype) if weights is None else weights
    rows = [table[indices[a:b]] * factors[a:b, np.newaxis] for a, b in zip(starts, ends, strict=True)]
    if reduce == "max":
        return np.stack([part.max(0, initial=-np.inf) for part in rows]).astype(table.dtype)
    sums = np.stack([one_by_one(part) for part in rows])
    counts = np.array([[max(len(part), 1)] for part in rows], table.dtype)
    return sums / counts if reduce == "mean" else sums


def theirs(model, inputs):
    """Return what ONNX Runtime gives with two threads; None without it."""
    if not HAS_RUNTIME:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 2, 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)


def same(got, wanted):
    return (got.shape, got.dtype, got.tobytes()) == (wanted.shape, wanted.dtype, wanted.tobytes())


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


def checked(ir, inputs, wanted, check_stages):
    """Assert that every oracle gives `wanted`; `exports/data` has what OpenVINO gives for models that it wrote."""
    model = gn.load(ir.write())
    check_stages(model, inputs)
    (got,) = model.run(inputs).values()
    assert same(got, wanted)


NATURAL = INDICES % 50
OFFSETS = np.array([0, 7, 7, 30, 31])


@pytest.mark.parametrize("default", [None, -1, 4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["EmbeddingBagOffsets", "EmbeddingBagOffsetsSum"])
@pytest.mark.parametrize("element", [np.int32, np.int64])
def test_openvino_bags_by_offsets(ir, check_stages, default, weighted, kind, element):
    if weighted and default is None:
        pytest.skip("weights come behind the default index")
    code = "i32" if element is np.int32 else "i64"
    inputs = {"i": NATURAL.astype(element), "o": OFFSETS.astype(element)}
    layers = [ir.const(TABLE), ir.parameter("i", "40", code), ir.parameter("o", "5", code)]
    layers += [] if default is None else [ir.const(element(default))]
    if weighted:
        inputs["w"] = WEIGHTS
        layers.append(ir.parameter("w", "40"))
    opset, data = ("opset15", 'reduction="sum"') if kind.endswith("s") else ("opset3", "")
    ir.result(ir.layer(kind, layers, opset=opset, data=data, dims=[5, 20]))
    wanted = of_bags(TABLE, NATURAL, OFFSETS, WEIGHTS if weighted else None)
    wanted[1] = TABLE[4] if default == 4 else 0
    checked(ir, inputs, wanted, check_stages)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_openvino_bags_packed(ir, check_stages, reduction):
    i = ir.parameter("i", "8,5", "i64")
    ir.result(
        ir.layer(
            "EmbeddingBagPacked", [ir.const(TABLE), i], opset="opset15", data=f'reduction="{reduction}"', dims=[8, 20]
        )
    )
    wanted = of_bags(TABLE, NATURAL, np.arange(0, 40, 5), reduce=reduction)
    checked(ir, {"i": NATURAL.reshape(8, 5)}, wanted, check_stages)


def test_openvino_means_by_offsets(ir, check_stages):
    layers = [ir.const(TABLE), ir.parameter("i", "?", "i64"), ir.parameter("o", "?", "i64")]
    ir.result(ir.layer("EmbeddingBagOffsets", layers, opset="opset15", data='reduction="mean"', dims=[-1, 20]))
    wanted = of_bags(TABLE, NATURAL, OFFSETS, reduce="mean")
    checked(ir, {"i": NATURAL, "o": OFFSETS}, wanted, check_stages)


def test_openvino_bags_packed_and_weighted(ir, check_stages):
    i, w = ir.parameter("i", "8,5", "i32"), ir.parameter("w", "8,5")
    ir.result(ir.layer("EmbeddingBagPackedSum", [ir.const(TABLE), i, w], opset="opset3", dims=[8, 20]))
    inputs = {"i": NATURAL.reshape(8, 5).astype(np.int32), "w": WEIGHTS.reshape(8, 5)}
    checked(ir, inputs, of_bags(TABLE, NATURAL, np.arange(0, 40, 5), WEIGHTS), check_stages)


@pytest.mark.parametrize("default", [None, -1, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_openvino_segments(ir, check_stages, default, weighted):
    if weighted and default is None:
        pytest.skip("weights come behind the default index")
    segments = np.repeat([0, 2, 3, 5], [7, 20, 1, 12])
    inputs = {"i": NATURAL, "s": segments}
    layers = [ir.const(TABLE), ir.parameter("i", "40", "i64"), ir.parameter("s", "40", "i64"), ir.const(np.int64(7))]
    layers += [] if default is None else [ir.const(np.int64(default))]
    if weighted:
        inputs["w"] = WEIGHTS
        layers.append(ir.parameter("w", "40"))
    ir.result(ir.layer("EmbeddingSegmentsSum", layers, opset="opset3", dims=[7, 20]))
    starts, ends = np.array([0, 7, 7, 27, 28, 28, 40]), np.array([7, 7, 27, 28, 28, 40, 40])
    wanted = of_bags(TABLE, NATURAL, starts, WEIGHTS if weighted else None, ends=ends)
    wanted[[1, 4, 6]] = TABLE[4] if default == 4 else 0
    checked(ir, inputs, wanted, check_stages)


@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMean"])
@pytest.mark.parametrize(("opset", "outside"), [("opset1", False), ("opset7", False), ("opset8", True)])
def test_openvino_reduction_of_gathered_rows_adds_them_one_by_one(ir, check_stages, kind, opset, outside):
    indices = NATURAL.reshape(8, 5).copy()
    table = np.concatenate([TABLE, np.zeros((1, 20), np.float32)])
    if outside:
        indices[2, 3], indices[5] = 50, 50  # rows of zeros, which count in a mean
    i, axis = ir.parameter("i", "?,5", "i64"), ir.const(np.array(0))
    rows = ir.layer("Gather", [ir.const(TABLE), i, axis], opset=opset, dims=[-1, 5, 20])
    ir.result(ir.layer(kind, [rows, ir.const(np.array([1]))], data='keep_dims="true"', dims=[-1, 1, 20]))
    sums = np.stack([one_by_one(table[bag]) for bag in indices])
    wanted = sums / np.float32(5) if kind == "ReduceMean" else sums
    checked(ir, {"i": indices}, wanted[:, np.newaxis], check_stages)


@pytest.mark.parametrize(("opset", "allowed"), [("opset1", False), ("opset7", False), ("opset8", True)])
def test_openvino_reduction_of_gathered_rows_allows_the_negative_indices_of_its_gather(ir, opset, allowed):
    i, axis = ir.parameter("i", "?", "i64"), ir.const(np.array(0))
    rows = ir.layer("Gather", [ir.const(TABLE), i, axis], opset=opset, dims=[-1, 20])
    ir.result(ir.layer("ReduceSum", [rows, ir.const(np.array([0]))], name="sum", dims=[20]))
    model = gn.load(ir.write())
    if allowed:
        assert same(model(np.array([3, -1]))["y"], TABLE[3] + TABLE[49])
        return
    with pytest.raises(gn.BoundsError, match=r"node 'sum': index -1 is out of range \[0, 49\]"):
        model(np.array([3, -1]))


@pytest.mark.parametrize("table", [TABLE[:, :1], TABLE[:, 0]], ids=["a column", "scalars"])
def test_openvino_sums_of_single_elements_are_rejected(ir, table):
    """It adds them in vectors."""
    layers = [ir.const(table), ir.parameter("i", "8,5", "i64"), ir.const(np.array(0))]
    rows = ir.layer("Gather", layers, dims=[8, 5, *table.shape[1:]])
    ir.result(ir.layer("ReduceSum", [rows, ir.const(np.array([1]))], dims=[8, *table.shape[1:]]))
    with pytest.raises(gn.ModelError, match="what it gives depends on their order"):
        gn.load(ir.write())


@pytest.mark.parametrize(
    ("indices", "offsets", "error", "message"),
    [
        ([1, -1], [0], gn.BoundsError, r"index -1 is out of range \[0, 49\]"),
        ([1, 50], [0], gn.BoundsError, r"index 50 is out of range \[0, 49\] for a table of 50 rows; 1 of 2 indices"),
        ([1, 2], [0, 3], gn.ModelError, "bag 0 is from 0 to 3, and bags lie within the 2 indices"),
        ([1, 2, 3], [0, 2, 1], gn.ModelError, "bag 1 is from 2 to 1"),
        ([1, 2], [-1, 1], gn.ModelError, "bag 0 is from -1 to 1"),
    ],
)
def test_what_openvino_reads_outside_of_its_arrays_for_is_an_error(ir, indices, offsets, error, message):
    layers = [ir.const(TABLE), ir.parameter("i", "?", "i64"), ir.parameter("o", "?", "i64")]
    ir.result(ir.layer("EmbeddingBagOffsetsSum", layers, opset="opset3", name="bag", dims=[-1, 20]))
    with pytest.raises(error, match=f"node 'bag': {message}"):
        gn.load(ir.write()).run({"i": np.array(indices), "o": np.array(offsets)})


def test_openvino_segments_that_fall_are_an_error(ir):
    layers = [ir.const(TABLE), ir.parameter("i", "3", "i64"), ir.parameter("s", "3", "i64"), ir.const(np.int64(2))]
    ir.result(ir.layer("EmbeddingSegmentsSum", layers, opset="opset3", name="bag", dims=[2, 20]))
    with pytest.raises(gn.ModelError, match="node 'bag': numbers of segments must ascend, and they fall"):
        gn.load(ir.write()).run({"i": np.array([1, 2, 3]), "s": np.array([0, 1, 0])})


@pytest.mark.parametrize(
    ("kind", "made", "message"),
    [
        ("EmbeddingBagOffsets", {"data": 'reduction="max"'}, "reduction must be sum or mean, got 'max'"),
        ("EmbeddingBagOffsets", {"default": 50}, r"default_index must be one index of the table, or -1 .* got \[50\]"),
        ("EmbeddingBagOffsets", {"default": -2}, r"default_index must be one index of the table, or -1 .* got \[-2\]"),
        ("EmbeddingBagOffsets", {"indices": "4,2"}, "indices must have rank 1, got tensor<4x2xi64>"),
        ("EmbeddingBagOffsets", {"table": np.zeros((5, 2), bool)}, "a sum of bags is of int8, .* got i1"),
        (
            "EmbeddingBagOffsets",
            {"table": np.zeros((5, 2), np.int32), "data": 'reduction="mean"'},
            "a mean of bags is of float16, bfloat16, float32, float64, got i32",
        ),
        ("EmbeddingBagOffsets", {"table": np.zeros((), np.float32)}, "have a dimension or more"),
        ("EmbeddingBagOffsets", {"offsets": "4,1"}, "element types differ|differ off axis|shapes"),
        ("EmbeddingBagOffsets", {"weights": "3", "default": -1}, r"weights must have the shape of indices, \[4\], got"),
        (
            "EmbeddingBagOffsets",
            {"weights": "4", "default": -1, "data": 'reduction="mean"'},
            "weights are of sums, and floats of the type of the table",
        ),
        ("EmbeddingBagPacked", {"indices": "4"}, "indices must have rank 2, a row for each bag, got tensor<4xi64>"),
    ],
)
def test_hostile_bags_are_rejected_in_one_line(ir, kind, made, message):
    table = ir.const(made.get("table", TABLE))
    layers = [table, ir.parameter("i", made.get("indices", "4"), "i64")]
    if kind.endswith("Offsets"):
        layers.append(ir.parameter("o", made.get("offsets", "2"), "i64"))
    layers += [ir.const(np.int64(made["default"]))] if "default" in made else []
    layers += [ir.parameter("w", made["weights"])] if "weights" in made else []
    ir.result(ir.layer(kind, layers, opset="opset15", name="bag", data=made.get("data", ""), dims=[2, 20]))
    with pytest.raises(gn.ModelError, match=rf"node 'bag' \({kind}\): .*{message}") as raised:
        gn.load(ir.write())
    assert "\n" not in str(raised.value)
