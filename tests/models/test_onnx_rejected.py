"""ONNX files that are damaged, ask for too much or hold what is not supported: one clear error, and no memory taken."""

import os
import subprocess
import sys
import textwrap
import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node

import gathernest as gn

TABLE = np.arange(24, dtype=np.float32).reshape(6, 4)


def small(make, **settings):
    node = make_node("Gather", ["w", "i"], ["y"], name="pick")
    return make([node], {"i": "2xi64"}, {"y": "2x4xf32"}, {"w": TABLE}, **settings)


def rejected(load, model, message, **settings):
    with pytest.raises(gn.ModelError) as raised:
        load(model, **settings)
    assert message in str(raised.value)


@pytest.mark.parametrize("data", [b"", b"\x00", b"garbage" * 100, b"\xff" * 64, b"<?xml version='1.0'?>"])
def test_garbage_is_rejected(load, data):
    rejected(load, data, "model.onnx")


def test_every_truncation_is_rejected_or_read_whole(load, make):
    data = small(make).SerializeToString()
    for length in range(len(data)):
        with pytest.raises(gn.ModelError):
            load(data[:length])


def test_bytes_that_are_damaged_anywhere_raise_nothing_else(load, make):
    data = small(make).SerializeToString()
    rng = np.random.default_rng(0)
    count = 0
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(rng.integers(1, 4)):
            damaged[rng.integers(len(damaged))] = rng.integers(256)
        try:
            load(bytes(damaged))
        except (gn.ModelError, gn.BoundsError):
            count += 1
    assert count > 100


def test_missing_file_folder_and_pipe_are_rejected(load, tmp_path):
    with pytest.raises(gn.ModelError, match=r"there\.onnx cannot be read: No such file or directory"):
        gn.load(tmp_path / "there.onnx")
    with pytest.raises(gn.ModelError, match="cannot be read: embedded null byte"):
        gn.load("a\0b.onnx")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(gn.ModelError, match=r"folder\.onnx cannot be read: Is a directory"):
        gn.load(tmp_path / "folder.onnx")
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(gn.ModelError, match=r"pipe\.onnx is not a file"):
        gn.load(tmp_path / "pipe.onnx")


def test_other_suffix_is_rejected(tmp_path):
    with pytest.raises(gn.ModelError, match=r"model.pt is no model that can be read; a name ends in \.onnx or \.xml"):
        gn.load(tmp_path / "model.pt")


def test_unknown_operator_names_the_node_and_what_is_supported(load, make):
    proto = make([make_node("Relu", ["x"], ["y"], name="act")], {"x": "2xf32"}, {"y": "2xf32"})
    rejected(
        load, proto, "not supported: Relu (1 node 'act'); supported are Gather, GatherND, GatherElements, Constant"
    )


def test_every_unknown_operator_is_named_with_its_count(load, make):
    names = ("Relu", "Softmax", "Relu", "Gelu", "Add", "Relu")
    nodes = [make_node(kind, ["x"], [f"y{place}"], name=f"n{place}") for place, kind in enumerate(names)]
    wanted = "not supported: Relu (3 nodes, first 'n0'), Gelu (1 node 'n3'), Softmax (1 node 'n1'); supported are"
    rejected(load, make(nodes, {"x": "2xf32"}, {"y0": "2xf32"}), wanted)


def test_split_is_what_takes_models_of_other_operators(load, make):
    proto = make([make_node("Relu", ["x"], ["y"])], {"x": "2xf32"}, {"y": "2xf32"})
    rejected(load, proto, ", Tile, CastLike; gathernest.split leaves all others to ONNX Runtime")


def test_other_domain_is_rejected(load, make):
    proto = make([make_node("Gather", ["x", "x"], ["y"], name="g", domain="com.acme")], {"x": "2xi64"}, {"y": "2xi64"})
    rejected(load, proto, "not supported: com.acme.Gather (1 node 'g'); supported are Gather")


def test_opset_of_the_future_is_rejected(load, make):
    newest = onnx.defs.onnx_opset_version()
    rejected(
        load, small(make, opset=newest + 1), f"is written in opset {newest + 1}, and onnx {onnx.__version__} knows"
    )


def test_model_without_opset_or_with_several_is_rejected(load, make):
    proto = small(make)
    proto.opset_import.add(domain="ai.onnx", version=1)
    rejected(load, proto, "names several versions of ai.onnx, 21, 1; it may be damaged")
    del proto.opset_import[:]
    rejected(load, proto, "names no version of the operators of ai.onnx")


def test_operator_that_came_later_is_rejected(load, make):
    node = make_node("GatherND", ["w", "i"], ["y"], name="n")
    proto = make([node], {"i": "2x1xi64"}, {"y": "2x4xf32"}, {"w": TABLE}, opset=10)
    rejected(load, proto, "node 'n' (GatherND): GatherND is not an operator of opset 10")


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (make_node("Gather", ["w"], ["y"]), "Gather-13 has 2 inputs, got 1"),
        (make_node("Gather", ["w", ""], ["y"]), "input #1 is missing"),
        (make_node("Gather", ["w", "i"], ["y", "z"]), "Gather gives one output, got 2"),
        (make_node("Gather", ["w", "i"], ["y"], axes=1), "Gather-13 has no attribute 'axes'; it has axis"),
        (make_node("Gather", ["w", "i"], ["y"], axis=1.5), "attribute 'axis' must be one INT, got FLOAT"),
        (make_node("Gather", ["w", "i"], ["y"], axis=7), "axis 7 is out of range [-2, 1] for data of rank 2"),
        (make_node("Gather", ["w", "w"], ["y"]), "indices must be integers, got tensor<6x4xf32>"),
        (make_node("Gather", ["w", "later"], ["y"]), "input 'later' is not defined before it is used"),
        (make_node("GatherND", ["w", "dynamic"], ["y"]), "the last size of indices is the length of the tuples"),
        (make_node("Concat", ["w", "w"], ["y"]), "attribute 'axis' is missing"),
        (make_node("Concat", ["w", "i"], ["y"], axis=0), "element types differ: tensor<6x4xf32>, tensor<2xi64>"),
        (make_node("Concat", ["i", "i2"], ["y"], axis=0), "shapes (2,) and (1, 1) differ off axis 0"),
        (make_node("Concat", ["one", "scalar"], ["y"], axis=0), "shapes (1,) and () differ off axis 0"),
        (make_node("Reshape", ["w", "least"], ["y"]), f"sizes [{-(2**63)}] are no shape: at most one size is -1"),
        (make_node("Reshape", ["w", "dynamic"], ["y"]), "the length of the new shape is dynamic"),
        (make_node("Reshape", ["w", "five"], ["y"]), "sizes [5] do not fit the 24 elements of shape (6, 4)"),
        (make_node("Unsqueeze", ["w", "i"], ["y"]), "axes must be known before the model runs"),
        (make_node("Unsqueeze", ["w", "five"], ["y"]), "axis 5 is out of range [-3, 2] for rank 3"),
        (make_node("Squeeze", ["w", "one"], ["y"]), "axis 1 has size 4; only a dimension of size 1 can be left out"),
        (make_node("Squeeze", ["dynamic"], ["y"]), "without axes, the sizes must be known to see which are 1"),
        (
            make_node("Cast", ["w"], ["y"], to=TensorProto.STRING),
            "elements of type object are not converted; bool, int8",
        ),
        (make_node("Cast", ["w"], ["y"], to=999), "attribute 'to' has element type 999, which this onnx does not know"),
        (make_node("Constant", [], ["y"]), "a Constant has one value, got the attributes none"),
    ],
)
def test_node_that_is_wrong_is_named(load, make, node, message):
    node.name = "bad"
    weights = {"w": TABLE, "i2": np.array([[1]]), "five": np.array([5]), "one": np.array([1]), "scalar": np.array(1)}
    weights["least"] = np.array([-(2**63)])
    proto = make([node], {"i": "2xi64", "dynamic": "Nxi64"}, {"y": "?xf32"}, weights)
    rejected(load, proto, f"node 'bad' ({node.op_type}): ")
    rejected(load, proto, message)


def test_cycle_is_rejected(load, make):
    nodes = [make_node("Identity", ["b"], ["a"], name="first"), make_node("Identity", ["a"], ["b"], name="second")]
    rejected(
        load, make(nodes, {}, {"b": "2xf32"}), "node 'first' (Identity): input 'b' is not defined before it is used"
    )


def test_second_definition_is_rejected(load, make):
    nodes = [make_node("Identity", ["x"], ["y"]), make_node("Identity", ["x"], ["y"])]
    rejected(load, make(nodes, {"x": "2xf32"}, {"y": "2xf32"}), "output 'y' is defined a second time")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("3x4xf32", "output 'y' is declared with shape (3, 4), and the graph gives tensor<2x4xf32>"),
        ("2x4xf64", "output 'y' is declared as float64, and the graph gives tensor<2x4xf32>"),
    ],
)
def test_output_that_is_declared_otherwise_is_rejected(load, make, output, message):
    node = make_node("Gather", ["w", "i"], ["y"])
    rejected(load, make([node], {"i": "2xi64"}, {"y": output}, {"w": TABLE}), message)


def test_output_that_nothing_gives_is_rejected(load, make):
    proto = small(make)
    proto.graph.output[0].name = "z"
    rejected(load, proto, "output 'z' is not defined before it is used")
    del proto.graph.output[:]
    rejected(load, proto, "the model has no outputs")


def test_input_that_is_no_tensor_or_has_no_rank_is_rejected(load, make):
    proto = small(make)
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    rejected(load, proto, "input 'i' has no shape, and its rank must be known")
    proto.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("i", TensorProto.INT64, [2]))
    rejected(load, proto, "input 'i' is sequence type, and only tensors are supported")


def test_sparse_initializers_are_rejected(load, make):
    proto = small(make)
    proto.graph.sparse_initializer.add()
    rejected(load, proto, "the model has sparse initializers, which are not supported")


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([2, -3], "has shape [2, -3], and sizes are 0 or more"),
        ([-(2**63)], "and sizes are 0 or more"),
        ([2**40], "max_tensor_bytes="),
    ],
)
def test_sizes_of_an_input_or_a_weight_are_checked(load, make, shape, message):
    proto = small(make)
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("i", TensorProto.INT64, shape))
    rejected(load, proto, message)
    proto = small(make)
    del proto.graph.initializer[0].dims[:]
    proto.graph.initializer[0].dims.extend(shape)
    rejected(load, proto, message)


def test_weight_without_enough_values_is_rejected(load, make):
    proto = small(make)
    proto.graph.initializer[0].raw_data = b"\0" * 10
    rejected(load, proto, "initializer 'w' of shape (6, 4) and float32 cannot be read")


def test_weight_of_unknown_type_is_rejected(load, make):
    proto = small(make)
    proto.graph.initializer[0].data_type = 99
    rejected(load, proto, "initializer 'w' has element type 99, which this onnx does not know")


def test_limits_may_be_lowered_and_raised(load, make):
    proto = small(make)
    rejected(
        load, proto, "over the limit max_tensor_bytes=95; raise it if the model is to be trusted", max_tensor_bytes=95
    )
    rejected(load, proto, "over the limit max_file_bytes=100", max_file_bytes=100)
    assert load(proto, max_tensor_bytes=96, max_file_bytes=10**4).inputs


def test_result_that_grows_without_end_is_rejected(load, make):
    nodes = [make_node("Concat", [f"c{n}", f"c{n}"], [f"c{n + 1}"], axis=0) for n in range(40)]
    proto = make(nodes, {}, {"c40": "?x4xf32"}, {"c0": TABLE})
    rejected(load, proto, "over the limit max_tensor_bytes=2147483648")


@pytest.mark.thorough
def test_constants_are_not_folded_into_gigabytes(load, make):
    nodes = [make_node("Concat", [f"c{n}", f"c{n}"], [f"c{n + 1}"], axis=0) for n in range(24)]
    proto = make(nodes, {}, {"c24": "?x4xf32"}, {"c0": TABLE})
    tracemalloc.start()
    try:
        model = load(proto)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert str(model.outputs["c24"]) == f"f32[{6 * 2**24}, 4]"
    assert peak < 2**30


@pytest.mark.thorough
def test_huge_sizes_take_no_memory(load, make, tmp_path):
    """In a process of its own whose memory is limited to 4 GiB of addresses."""
    proto = small(make)
    del proto.graph.initializer[0].dims[:]
    proto.graph.initializer[0].dims.extend([2**20, 2**20])
    path = load.write(proto)
    limit = 4 * 2**30
    code = textwrap.dedent(f"""
        import resource
        resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))
        import gathernest as gn
        try:
            gn.load({str(path)!r}, max_tensor_bytes=2**60)
        except gn.ModelError as error:
            print(error)
    """)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "initializer 'w' of shape (1048576, 1048576) and float32 cannot be read" in ended.stdout


def external(make, location, **entries):
    proto = small(make)
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return proto


def test_external_data_is_rejected_unless_it_is_allowed(load, make, tmp_path):
    (tmp_path / "w.bin").write_bytes(b"\0" * 8 + TABLE.tobytes())
    proto = external(make, "w.bin", offset=8, length=96)
    rejected(
        load, proto, "initializer 'w' lies in another file, 'w.bin'; allow_external_data=True (--allow-external-data)"
    )
    model = load(proto, allow_external_data=True)
    assert model(i=np.array([5, 0]))["y"].tobytes() == TABLE[[5, 0]].tobytes()


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "sub/../../w.bin", "", "a\\b", "c:w.bin", "a\0b"])
def test_external_data_outside_the_folder_is_rejected(load, make, location):
    rejected(load, external(make, location), "which is not a path inside the model's folder", allow_external_data=True)


def test_external_data_behind_a_link_that_leads_out_is_rejected(load, make, tmp_path, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "w.bin"
    outside.write_bytes(TABLE.tobytes())
    (tmp_path / "w.bin").symlink_to(outside)
    (tmp_path / "folder").symlink_to(outside.parent)
    for location in ("w.bin", "folder/w.bin"):
        rejected(load, external(make, location), "a link leads out of the model's folder", allow_external_data=True)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": 9, "length": 96}, "has 96 bytes; bytes 9 to 105 are not in it"),
        ({"offset": -1}, "has offset '-1' in its file, which is no number from 0"),
        ({"offset": "1e9"}, "has offset '1e9' in its file"),
        ({"length": 10}, "initializer 'w' of shape (6, 4) and float32 cannot be read"),
        ({"length": 2**62}, "are not in it"),
    ],
)
def test_range_of_external_data_is_checked(load, make, tmp_path, entries, message):
    (tmp_path / "w.bin").write_bytes(TABLE.tobytes())
    rejected(load, external(make, "w.bin", **entries), message, allow_external_data=True)


def test_constant_index_outside_is_found_when_the_model_is_loaded(load, make):
    node = make_node("Gather", ["x", "i"], ["y"], name="pick")
    proto = make([node], {"x": "6x4xf32"}, {"y": "2x4xf32"}, {"i": np.array([0, 6])})
    with pytest.raises(gn.BoundsError, match=r"node 'pick': index 6 at position \(1,\) .* range \[-6, 5\] for axis 0"):
        load(proto)
