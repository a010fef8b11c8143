"""Every operator that an ONNX model may have: the interpreter at each stage, the compiled run and ONNX agree."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx.helper import make_node, make_tensor

import gathernest as gn

RNG = np.random.default_rng(3)
TABLE = RNG.random((6, 4), dtype=np.float32)
NEWEST = onnx.defs.onnx_opset_version()


@pytest.mark.parametrize(("opset", "version"), [(1, 1), (10, 1), (11, 11), (13, 13), (21, 13), (NEWEST, 13)])
def test_gather_of_every_opset_is_its_version(load, make, opset, version):
    proto = make(
        [make_node("Gather", ["table", "i"], ["y"], name="look up", axis=1)],
        {"i": "2x3xi64"},
        {"y": "6x2x3xf32"},
        {"table": TABLE},
        opset=opset,
    )
    model = load.checked(proto, {"i": np.array([[0, 3, 1], [2, 2, 0]])})
    assert f'version "onnx.Gather-{version}" {{gather.node = "look up"}}' in str(model)


@pytest.mark.parametrize("opset", [11, 12, 13, NEWEST])
def test_gather_nd_and_gather_elements(load, make, opset):
    batch = {"batch_dims": 1} if opset >= 12 else {}
    nodes = [
        make_node("GatherND", ["x", "i"], ["tuples"], **batch),
        make_node("GatherElements", ["x", "j"], ["elements"], axis=2),
    ]
    proto = (
        make(
            nodes,
            {"x": "2x5x4xf32", "i": "2x3x2xi64", "j": "2x5x3xi32"},
            {"tuples": "?x?xf32", "elements": "2x5x3xf32"},
            opset=opset,
        )
        if batch
        else make(
            nodes,
            {"x": "2x5x4xf32", "i": "2x3x2xi64", "j": "2x5x3xi32"},
            {"tuples": "?x?x?xf32", "elements": "2x5x3xf32"},
            opset=opset,
        )
    )
    inputs = {
        "x": RNG.random((2, 5, 4), dtype=np.float32),
        "i": RNG.integers(-2, 2, (2, 3, 2)),
        "j": RNG.integers(-4, 4, (2, 5, 3)).astype(np.int32),
    }
    load.checked(proto, inputs)


def test_dynamic_sizes_keep_their_names(load, make):
    proto = make(
        [make_node("Gather", ["x", "i"], ["y"])], {"x": "rowsx4xf32", "i": "batchx?xi64"}, {"y": "batchx?x4xf32"}
    )
    model = load.checked(proto, {"x": TABLE, "i": np.array([[0, -1, 5]])})
    assert {name: str(spec) for name, spec in model.inputs.items()} == {"x": "f32[rows, 4]", "i": "i64[batch, ?]"}
    assert {name: str(spec) for name, spec in model.outputs.items()} == {"y": "f32[batch, ?, 4]"}
    load.checked(proto, {"x": TABLE[:2], "i": np.array([[0, -1], [1, -2]])})


@pytest.mark.parametrize(
    "data",
    [
        TABLE.astype(np.float16),
        TABLE.astype(ml_dtypes.bfloat16),
        TABLE.astype(ml_dtypes.float8_e4m3fn),
        (TABLE * 10 - 5).astype(ml_dtypes.int4),
        TABLE.astype(np.complex64),
        TABLE > 0.5,
        (TABLE * 100).astype(np.uint8),
        np.array([["", "b", "cé", "d" * 30]] * 3, object),
    ],
    ids=lambda data: data.dtype.name,
)
def test_weights_of_every_element_type(load, make, data):
    names = {
        "float16": "f16",
        "bfloat16": "bf16",
        "float8_e4m3fn": "f8",
        "int4": "i4",
        "complex64": "c64",
        "bool": "bool",
        "uint8": "u8",
        "object": "str",
    }
    proto = make(
        [make_node("Gather", ["w", "i"], ["y"], axis=0)],
        {"i": "3xi64"},
        {"y": f"3x4x{names[data.dtype.name]}"},
        {"w": data},
    )
    load.checked(proto, {"i": np.array([2, 0, -1])})


def test_weights_in_typed_fields_are_read(load, make):
    proto = make([make_node("Gather", ["w", "i"], ["y"])], {"i": "2xi64"}, {"y": "2x2xf32"})
    proto.graph.initializer.append(make_tensor("w", onnx.TensorProto.FLOAT, [3, 2], range(6)))
    load.checked(proto, {"i": np.array([2, 0])})


def test_initializer_that_is_also_an_input_is_a_constant(load, make):
    proto = make(
        [make_node("Gather", ["w", "i"], ["y"])], {"w": "6x4xf32", "i": "2xi64"}, {"y": "2x4xf32"}, {"w": TABLE}
    )
    model = load(proto)
    assert list(model.inputs) == ["i"]
    assert model(i=np.array([1, 5]))["y"].tobytes() == TABLE[[1, 5]].tobytes()


@pytest.mark.parametrize(
    ("to", "element"),
    [(onnx.TensorProto.FLOAT16, "f16"), (onnx.TensorProto.BFLOAT16, "bf16"), (onnx.TensorProto.INT32, "i32")],
)
def test_cast_of_data(load, make, to, element):
    nodes = [make_node("Cast", ["x"], ["c"], to=to), make_node("Gather", ["c", "i"], ["y"], axis=-1)]
    proto = make(nodes, {"x": "?x4xf32", "i": "2xi64"}, {"y": f"?x2x{element}"})
    load.checked(proto, {"x": TABLE * 9 - 4, "i": np.array([3, 0])})


def test_cast_of_version_1_names_its_type(load, make):
    nodes = [make_node("Cast", ["i"], ["c"], to="INT32"), make_node("Gather", ["x", "c"], ["y"])]
    proto = make(nodes, {"x": "6x4xf32", "i": "2xi64"}, {"y": "2x4xf32"}, opset=1)
    model = load(proto)
    assert model(x=TABLE, i=np.array([3, 0]))["y"].tobytes() == TABLE[[3, 0]].tobytes()


def test_cast_to_the_same_type_leaves_nothing(load, make):
    nodes = [
        make_node("Cast", ["w"], ["c"], to=onnx.TensorProto.INT4),
        make_node("Identity", ["c"], ["d"]),
        make_node("Gather", ["d", "i"], ["y"]),
    ]
    data = np.arange(-8, 8).astype(ml_dtypes.int4)
    proto = make(nodes, {"i": "2xi64"}, {"y": "2xi4"}, {"w": data})
    model = load.checked(proto, {"i": np.array([3, -1])})
    assert "graph.cast" not in model.stages["operator"]


@pytest.mark.parametrize(
    "attributes", [{}, {"start": 1}, {"start": -2, "end": 9}, {"start": -9, "end": -1}, {"start": 2, "end": 1}]
)
def test_shape_with_start_and_end(load, make, attributes):
    proto = make([make_node("Shape", ["x"], ["y"], **attributes)], {"x": "Nx3x5xf32"}, {"y": "?xi64"})
    load.checked(proto, {"x": np.zeros((2, 3, 5), np.float32)})


@pytest.mark.parametrize("opset", [1, 11, 13, NEWEST])
def test_squeeze_and_unsqueeze_with_axes_as_attribute_or_input(load, make, opset):
    negative = opset >= 11
    axes, more = ([-1, 0] if negative else [0, 3]), ([-1] if negative else [2])
    weights = {"axes": np.array(axes), "more": np.array(more)} if opset >= 13 else {}
    if opset >= 13:
        nodes = [make_node("Unsqueeze", ["x", "axes"], ["u"]), make_node("Squeeze", ["u", "more_axes"], ["s"])]
        nodes.insert(0, make_node("Identity", ["more"], ["more_axes"]))
    else:
        nodes = [make_node("Unsqueeze", ["x"], ["u"], axes=axes), make_node("Squeeze", ["u"], ["s"], axes=[3])]
    proto = make(nodes, {"x": "Nx4xf32"}, {"u": "1xNx4x1xf32", "s": "1xNx4xf32"}, weights, opset=opset)
    load.checked(proto, {"x": TABLE})


def test_squeeze_without_axes_drops_every_size_of_1(load, make):
    proto = make([make_node("Squeeze", ["x"], ["y"])], {"x": "1x6x1x4xf32"}, {"y": "6x4xf32"})
    load.checked(proto, {"x": TABLE.reshape(1, 6, 1, 4)})


@pytest.mark.parametrize(
    ("sizes", "allow_zero", "shape", "result"),
    [
        ([3, 8], 0, (6, 4), "3x8"),
        ([-1, 2], 0, (6, 4), "12x2"),
        ([0, 2, -1], 0, (6, 4), "6x2x2"),
        ([0, 7], 1, (0, 4), "0x7"),
        ([], 0, (1, 1), ""),
    ],
)
def test_reshape(load, make, sizes, allow_zero, shape, result):
    proto = make(
        [make_node("Reshape", ["x", "sizes"], ["y"], allowzero=allow_zero)],
        {"x": "x".join([*map(str, shape), "f32"])},
        {"y": "x".join([*result.split("x"), "f32"]) if result else "f32"},
        {"sizes": np.array(sizes, np.int64)},
    )
    model = load.checked(proto, {"x": TABLE[: shape[0], : shape[1]]})
    assert str(model.outputs["y"]) == f"f32[{result.replace('x', ', ')}]"


def test_reshape_of_version_1_has_its_sizes_as_an_attribute(load, make):
    proto = make([make_node("Reshape", ["x"], ["y"], shape=[8, 3])], {"x": "6x4xf32"}, {"y": "8x3xf32"}, opset=1)
    assert load(proto)(x=TABLE)["y"].tobytes() == TABLE.tobytes()


def test_reshape_to_sizes_that_only_the_run_knows(load, make):
    proto = make([make_node("Reshape", ["x", "sizes"], ["y"])], {"x": "6x4xf32", "sizes": "2xi64"}, {"y": "?x?xf32"})
    load.checked(proto, {"x": TABLE, "sizes": np.array([-1, 12])})
    with pytest.raises(gn.ModelError, match=r"node 'y': sizes \[5, -1\] do not fit the 24 elements of shape \(6, 4\)"):
        load(proto)(x=TABLE, sizes=np.array([5, -1]))


@pytest.mark.parametrize(
    ("opset", "attributes"), [(1, {}), (4, {"axis": 0}), (13, {"axis": -1}), (NEWEST, {"axis": 1})]
)
def test_concat(load, make, opset, attributes):
    axis = attributes.get("axis", 1)
    shape = (1, 4) if axis == 0 else (6, 1)
    other = RNG.random(shape, dtype=np.float32)
    proto = make(
        [make_node("Concat", ["x", "z", "x"], ["y"], **attributes)],
        {"x": "Nx4xf32" if axis == 0 else "6xNxf32", "z": f"{shape[0]}x{shape[1]}xf32"},
        {"y": "?x?xf32"},
        opset=opset,
    )
    load.checked(proto, {"x": TABLE, "z": other}) if opset > 1 else load(proto)


@pytest.mark.parametrize(
    ("attribute", "element", "shape"),
    [
        ({"value": onnx.numpy_helper.from_array(TABLE)}, "f32", "6x4x"),
        ({"value_int": -3}, "i64", ""),
        ({"value_ints": [1, 2]}, "i64", "2x"),
        ({"value_float": 1.5}, "f32", ""),
        ({"value_floats": [1.5, -0.0]}, "f32", "2x"),
        ({"value_string": "aé"}, "str", ""),
        ({"value_strings": ["a", ""]}, "str", "2x"),
    ],
)
def test_constant_of_every_kind(load, make, attribute, element, shape):
    proto = make([make_node("Constant", [], ["y"], **attribute)], {}, {"y": f"{shape}{element}"})
    load.checked(proto, {})


def test_rows_picked_by_a_shape_that_exporters_compute(load, make):
    """Shape, Gather of one size, Unsqueeze, Concat with -1, Reshape: the usual flattening."""
    nodes = [
        make_node("Gather", ["table", "i"], ["rows"]),
        make_node("Shape", ["rows"], ["sizes"]),
        make_node("Constant", [], ["zero"], value_int=0),
        make_node("Gather", ["sizes", "zero"], ["batch"], axis=0),
        make_node("Unsqueeze", ["batch", "axes"], ["batch_1"]),
        make_node("Concat", ["batch_1", "rest"], ["wanted"], axis=0),
        make_node("Reshape", ["rows", "wanted"], ["y"]),
    ]
    proto = make(
        nodes, {"i": "Nx3xi64"}, {"y": "Nx12xf32"}, {"table": TABLE, "axes": np.array([0]), "rest": np.array([12])}
    )
    model = load.checked(proto, {"i": np.array([[0, -1, 5], [1, 1, 2]])})
    assert str(model.outputs["y"]) == "f32[N, 12]"


def test_long_chains_need_no_deep_stack(load, make):
    nodes = [make_node("Shape", ["x"], ["v0"])]
    nodes += [
        make_node("Unsqueeze" if number % 2 == 0 else "Squeeze", [f"v{number}", "axes"], [f"v{number + 1}"])
        for number in range(2000)
    ]
    nodes.append(make_node("Reshape", ["z", "v2000"], ["y"]))
    proto = make(nodes, {"x": "Nx4xf32", "z": "?xf32"}, {"y": "?x4xf32"}, {"axes": np.array([0])})
    model = load(proto)
    assert model(x=TABLE, z=TABLE.reshape(-1))["y"].tolist() == TABLE.tolist()


@pytest.mark.parametrize("kind", ["i64", "u8", "i32"])
def test_bits_of_integers(load, make, kind):
    nodes = [
        make_node("BitwiseAnd", ["x", "y"], ["both"]),
        make_node("BitwiseOr", ["x", "y"], ["either"]),
        make_node("BitwiseXor", ["x", "y"], ["one"]),
        make_node("BitwiseNot", ["x"], ["neither"]),
    ]
    outputs = {"both": f"3x4x{kind}", "either": f"3x4x{kind}", "one": f"3x4x{kind}", "neither": f"3x1x{kind}"}
    dtype = f"{kind[0]}{int(kind[1:]) // 8}"
    inputs = {"x": RNG.integers(0, 200, (3, 1)).astype(dtype), "y": RNG.integers(0, 200, 4).astype(dtype)}
    load.checked(make(nodes, {"x": f"3x1x{kind}", "y": f"4x{kind}"}, outputs, opset=18), inputs)
    floats = make([make_node("BitwiseNot", ["x"], ["y"])], {"x": "3xf32"}, {"y": "3xf32"}, opset=18)
    with pytest.raises(gn.ModelError, match=r"bitwise_not is of bool, int8, .* got f32"):
        load(floats)
