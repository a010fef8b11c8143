"""Models are untrusted: what is read of their files, and what is not."""

import os

import numpy as np
import pytest

import gathernest as gn

onnx = pytest.importorskip("onnx")
TensorProto, helper = onnx.TensorProto, onnx.helper

TABLE = np.arange(2000, dtype=np.float32).reshape(500, 4)


def model_of(*tensors, nodes=None):
    nodes = nodes or [helper.make_node("Gather", ["table", "i"], ["y"])]
    infos = [helper.make_tensor_value_info("i", TensorProto.INT64, ["n"])], [onnx.ValueInfoProto(name="y")]
    infos[1][0].type.tensor_type.elem_type = TensorProto.FLOAT
    graph = helper.make_graph(nodes, "test", *infos, list(tensors))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def external(location="weights", dims=(500, 4), kind=TensorProto.FLOAT, **entries):
    tensor = TensorProto(name="table", data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"12345678" + TABLE.tobytes())
    (tmp_path / "outside").write_bytes(TABLE.tobytes())
    return tmp_path / "model"


def load(folder, tensor, **options):
    (folder / "model.onnx").write_bytes(model_of(tensor).SerializeToString())
    return gn.load(folder / "model.onnx", **{"allow_external_data": True, **options})


def test_tensor_in_another_file_is_read_with_the_flag_only(folder):
    tensor = external(offset="8", length="8000")
    assert np.array_equal(load(folder, tensor)([3, -1])["y"], TABLE[[3, -1]])
    with pytest.raises(gn.ModelError, match="allow_external_data=True"):
        load(folder, tensor, allow_external_data=False)
    with pytest.raises(gn.ModelError, match="this model has no folder; load it by its path"):
        gn.load(model_of(tensor), allow_external_data=True)


def test_tensor_of_a_node_may_lie_in_another_file(folder):
    tensor = external(offset="8")
    nodes = [
        helper.make_node("Constant", [], ["table"], value=tensor),
        helper.make_node("Gather", ["table", "i"], ["y"]),
    ]
    (folder / "model.onnx").write_bytes(model_of(nodes=nodes).SerializeToString())
    assert np.array_equal(gn.load(folder / "model.onnx", allow_external_data=True)([1])["y"], TABLE[[1]])


@pytest.mark.parametrize("location", ["../outside", "/etc/passwd", "", "a/../../outside", "C:outside", "a\\b", "x\0y"])
def test_location_must_be_a_path_inside(folder, location):
    with pytest.raises(gn.ModelError, match=r"lies in another file, .*, which is not read: ."):
        load(folder, external(location))


@pytest.mark.parametrize("kind", ["link", "link of a folder", "hard link", "pipe", "folder", "nothing"])
def test_only_a_regular_file_without_links_is_read(folder, kind):
    location = "other"
    if kind == "link":
        (folder / "other").symlink_to("weights")
    elif kind == "link of a folder":
        (folder / "linked").symlink_to(folder.parent)
        location = "linked/outside"
    elif kind == "hard link":
        os.link(folder.parent / "outside", folder / "other")
    elif kind == "pipe":
        os.mkfifo(folder / "other")
    elif kind == "folder":
        (folder / "other").mkdir()
    with pytest.raises(
        gn.ModelError, match=r"which is not read: .*(link|not regular file|No such file|outside model directory)"
    ):
        load(folder, external(location))


WRONG_TENSORS = {
    "short": ({"dims": (5000, 4)}, "cannot be read"),
    "far": ({"offset": "9000"}, "exceeds file size"),
    "long": ({"length": "99999"}, "exceeds available data"),
    "number": ({"offset": "-8"}, "must be non-negative, got -8"),
    "strings": ({"kind": TensorProto.STRING}, "of strings, which cannot lie in another file"),
    "type": ({"kind": 99}, "has element type 99"),
    "negative": ({"dims": (-5, 4)}, "sizes are from 0"),
    "huge": ({"dims": (2**40, 4)}, "over the limit max_tensor_bytes"),
}


@pytest.mark.parametrize("name", WRONG_TENSORS)
def test_tensor_that_does_not_fit_its_file_is_one_error(folder, name):
    options, message = WRONG_TENSORS[name]
    with pytest.raises(gn.ModelError) as raised:
        load(folder, external(**options))
    assert message in str(raised.value)


def test_a_vector_of_a_huge_size_takes_no_memory(folder):
    model = model_of()
    model.graph.input.append(helper.make_tensor_value_info("table", TensorProto.FLOAT, [2**62]))
    assert f"Gather of table f32[{2**62}] by i i64[" in str(gn.load(model))


@pytest.mark.parametrize("is_in_function", [False, True])
def test_negative_batch_dims_are_rejected_before_they_end_the_process(is_in_function):
    gather, function = "GatherND <batch_dims = -100>", ""
    if is_in_function:
        gather = "f.F <b = -100>"
        body = "{ o = GatherND <batch_dims: int = @b>(d, i) }"
        function = f'<domain: "f", opset_import: ["": 13]> F <b> (d, i) => (o) {body}'
    head = '<ir_version: 8, opset_import: ["": 13, "f": 1]> model (float[2, 5, 3] d, int64[3, 5, 2] i) => (float[n] o)'
    model = pytest.importorskip("onnx.parser").parse_model(f"{head} {{ o = {gather} (d, i) }} {function}")
    with pytest.raises(gn.ModelError, match="GatherND that makes o has batch_dims -100; ONNX allows 0 or more"):
        gn.load(model)


def test_error_that_is_no_text_prints_nothing(folder, capfd):
    damaged = model_of(external(offset="8")).SerializeToString().replace(b"Gather", b"Gat\x80er")
    (folder / "model.onnx").write_bytes(damaged)
    with pytest.raises(gn.ModelError, match="does not run the model: 'utf-8' codec"):
        gn.load(folder / "model.onnx", allow_external_data=True)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("limit", ["max_file_bytes", "max_tensor_bytes", "max_total_bytes"])
def test_limits_are_kept(folder, limit):
    with pytest.raises(gn.ModelError, match=f"over the limit {limit}=7000; raise it if the model is to be trusted"):
        load(folder, external(offset="8"), **{limit: 7000})


@pytest.mark.parametrize("limit", [-1, pytest.param(-(16**5000), id="long"), None, "1G", 1e9, float("nan"), True])
def test_limit_is_an_integer_from_0(folder, limit):
    with pytest.raises(gn.ModelError, match=r"^max_total_bytes=.* is no number of bytes; pass an integer from 0"):
        load(folder, external(offset="8"), max_total_bytes=limit)


def test_limit_may_be_an_integer_of_numpy(folder):
    load(folder, external(offset="8"), max_total_bytes=np.int64(2**31))


def test_what_is_no_model_is_one_error(tmp_path):
    (tmp_path / "text.onnx").write_text("not a model")
    (tmp_path / "empty.onnx").write_bytes(b"")
    wrong = {
        tmp_path / "text.onnx": "is not an ONNX model, or damaged",
        tmp_path / "empty.onnx": "has no graph",
        tmp_path / "missing.onnx": "cannot be read: No such file or directory; check the path",
        tmp_path: "is no plain file; give the path of a model",
        "a\0b.onnx": "cannot be read",
        b"\xff\xff": "is not an ONNX model, or damaged",
        b"  <?xml": "an OpenVINO IR is loaded by the path of its .xml",
        5: "or an openvino.Model, got builtins.int",
    }
    for source, message in wrong.items():
        with pytest.raises(gn.ModelError) as raised:
            gn.load(source)
        assert message in str(raised.value), source


def test_name_that_is_no_text_is_one_error(folder):
    data = model_of(external(offset="8")).SerializeToString().replace(b"table", b"t\xffble")
    (folder / "model.onnx").write_bytes(data)
    with pytest.raises(gn.ModelError):
        gn.load(folder / "model.onnx", allow_external_data=True)
