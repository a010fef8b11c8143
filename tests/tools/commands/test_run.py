"""`gathernest run`: inputs from files or at random, outputs to files, the plan, the comparison, wrong command lines."""

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
numpy_helper = pytest.importorskip("onnx.numpy_helper")
TensorProto, helper = onnx.TensorProto, onnx.helper

TABLE = np.arange(24, dtype=np.float32).reshape(6, 4)


def write(path, nodes, inputs, outputs, weights=None, **settings):
    infos = [
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in entries.items()]
        for entries in (inputs, outputs)
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "test", *infos, tensors)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(proto, path, **settings)
    return str(path)


@pytest.fixture
def model(tmp_path):
    nodes = [helper.make_node("Gather", ["table", "tokens"], ["rows/0"], name="pick")]
    return write(
        tmp_path / "model.onnx",
        nodes,
        {"tokens": (TensorProto.INT64, [2, 3])},
        {"rows/0": (TensorProto.FLOAT, [2, 3, 4])},
        {"table": TABLE},
    )


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens.npy"
    np.save(path, np.array([[0, 5, -1], [2, 2, 3]]))
    return str(path)


def test_outputs_are_written_and_described(gathernest, model, tokens, tmp_path):
    ended = gathernest("run", model, "--input", f"tokens={tokens}", "--output", str(tmp_path / "results"))
    assert (ended.status, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].startswith("model.onnx: ")
    assert lines[1] == "input   tokens  2x3xi64"
    assert lines[2] == f"output  rows/0  2x3x4xf32  {tmp_path / 'results' / 'rows_0.npy'}"
    assert np.load(tmp_path / "results" / "rows_0.npy").tobytes() == TABLE[np.load(tokens)].tobytes()


def bags(path):
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["rows"], name="pick"),
        helper.make_node("ReduceSum", ["rows", "axes"], ["sums"], name="sum", keepdims=0),
        helper.make_node("Gather", ["sums", "tokens"], ["y"], name="again"),
    ]
    return write(
        path,
        nodes,
        {"tokens": (TensorProto.INT64, [6, 3])},
        {"y": (TensorProto.FLOAT, [6, 3, 4])},
        {"table": TABLE, "axes": np.array([1])},
    )


def test_plan_says_of_each_gather_where_it_runs(gathernest, tmp_path):
    path = bags(tmp_path / "bags.onnx")
    ended = gathernest("run", path, "--random", "0", "--plan")
    assert (ended.status, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[3].endswith(" runs the model; 0 of 2 gathers run here")
    assert lines[4] == "pick: ReduceSum of Gather of table (6, 4) by tokens (6, 3)"
    assert lines[5] == "  runtime: too small to be worth another call of the runtime"
    plan = json.loads(gathernest("run", path, "--random", "0", "--plan", "--json").out)["plan"]
    assert [(entry["node"], entry["runs"]) for entry in plan["gathers"]] == [("pick", "runtime"), ("again", "runtime")]


@pytest.mark.thorough
def test_plan_of_a_large_gather_is_decided(gathernest, tmp_path):
    nodes = [helper.make_node("Gather", ["table", "tokens"], ["y"], name="pick")]
    table = np.ones((2000, 500), np.float32)
    shapes = {"tokens": (TensorProto.INT64, ["n"])}, {"y": (TensorProto.FLOAT, ["n", 500])}
    path = write(tmp_path / "large.onnx", nodes, *shapes, {"table": table})
    ended = gathernest("run", path, "--random", "0", "--size", "n=3000", "--plan", "--json")
    (entry,) = json.loads(ended.out)["plan"]["gathers"]
    assert "µs with such gathers here" in entry["reason"]


def test_comparison_times_both_ways_and_looks_at_bytes(gathernest, model, tokens):
    words = ("run", model, "--input", f"tokens={tokens}", "--compare", "--rounds", "3")
    ended = gathernest(*words)
    assert (ended.status, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[3].split() == ["alone", "in", "turn"]
    assert lines[4].startswith("gathernest ") and lines[6].startswith("ratio, in turn ")
    assert lines[7].startswith("Medians of 3 rounds; ")
    assert lines[8].endswith(" gives the same bytes.")
    assert all(len(line) <= 80 for line in lines)
    found = json.loads(gathernest(*words, "--json").out)["compare"]
    assert (found["equal"], found["differences"], found["rounds"]) == (True, [], 3)
    assert found["in_turn_us"].keys() == found["alone_us"].keys() == {"gathernest", found["with"]}
    assert found["ratio"] == pytest.approx(found["in_turn_us"][found["with"]] / found["in_turn_us"]["gathernest"])


def test_random_inputs_are_in_range_and_the_same_for_a_seed(gathernest, model, tmp_path):
    results = []
    for seed, folder in (("1", "a"), ("1", "b"), ("2", "c")):
        ended = gathernest("run", model, "--random", seed, "--output", str(tmp_path / folder))
        assert ended.status == 0
        results.append(np.load(tmp_path / folder / "rows_0.npy").tobytes())
    assert results[0] == results[1] != results[2]


def test_random_inputs_are_below_the_least_axis(gathernest, tmp_path):
    nodes = [
        helper.make_node("Cast", ["a"], ["a64"], to=TensorProto.INT64),
        helper.make_node("Concat", ["a64", "b"], ["both"], axis=0),
        helper.make_node("Gather", ["x", "both"], ["y"]),
    ]
    inputs = {"x": (TensorProto.FLOAT, [7, 2]), "a": (TensorProto.INT32, [300]), "b": (TensorProto.INT64, ["B"])}
    path = write(tmp_path / "m.onnx", nodes, inputs, {"y": (TensorProto.FLOAT, ["C", 2])})
    ended = gathernest("run", path, "--random", "0", "--size", "B=300", "--json")
    assert (ended.status, ended.err) == (0, "")
    assert json.loads(ended.out)["outputs"]["y"]["shape"] == [600, 2]


def test_inputs_of_one_file_are_taken_by_name(gathernest, model, tmp_path):
    np.savez(tmp_path / "inputs.npz", tokens=np.array([[0, 5, -1], [2, 2, 3]]))
    ended = gathernest("run", model, "--input", str(tmp_path / "inputs.npz"), "--output", str(tmp_path))
    assert (ended.status, ended.err) == (0, "")
    assert np.load(tmp_path / "rows_0.npy")[0, 1].tolist() == TABLE[5].tolist()
    np.savez(tmp_path / "others.npz", token=np.array(0))
    ended = gathernest("run", model, "--input", str(tmp_path / "others.npz"))
    assert (ended.status, "no input 'token'; it has tokens; did you mean" in ended.err) == (1, True)


def test_elements_that_numpy_saves_as_bytes_come_back(gathernest, tmp_path):
    import ml_dtypes

    nodes = [helper.make_node("Gather", ["x", "i"], ["y"])]
    path = write(
        tmp_path / "m.onnx",
        nodes,
        {"x": (TensorProto.BFLOAT16, [3]), "i": (TensorProto.INT64, [2])},
        {"y": (TensorProto.BFLOAT16, [2])},
    )
    x = np.array([1.5, 2.5, -3], ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "i.npy", np.array([2, 0]))
    inputs = ("--input", f"x={tmp_path / 'x.npy'}", "--input", f"i={tmp_path / 'i.npy'}")
    assert gathernest("run", path, *inputs, "--output", str(tmp_path)).status == 0
    assert np.load(tmp_path / "y.npy").view(ml_dtypes.bfloat16).tolist() == [-3, 1.5]


def test_file_that_is_no_array_is_rejected(gathernest, model, tmp_path):
    wrong = {"text": b"no array", "pickle": None, "empty": b"", "header": b"\x93NUMPY\x01\x00\x02\x00(("}
    for name, data in wrong.items():
        path = tmp_path / f"{name}.npy"
        if data is None:
            np.save(path, np.array([{"a": 1}], object), allow_pickle=True)
        else:
            path.write_bytes(data)
        ended = gathernest("run", model, "--input", f"tokens={path}")
        assert ended.status == 1
        assert f"--input tokens: {path} is not a .npy file of plain elements: " in ended.err
    np.savez(tmp_path / "several.npz", a=TABLE)
    ended = gathernest("run", model, "--input", f"tokens={tmp_path / 'several.npz'}")
    assert f"holds several arrays; give --input {tmp_path / 'several.npz'} for all of them" in ended.err


@pytest.fixture
def pairs(tmp_path):
    """A model with sizes that have names."""
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["rows"], name="look"),
        helper.make_node("GatherElements", ["rows", "picks"], ["first"], axis=1),
    ]
    inputs = {"tokens": (TensorProto.INT64, ["batch", "length"]), "picks": (TensorProto.INT64, ["batch", "chosen", 4])}
    return write(
        tmp_path / "pairs.onnx", nodes, inputs, {"first": (TensorProto.FLOAT, ["batch", "chosen", 4])}, {"table": TABLE}
    )


def test_sizes_are_given_by_name(gathernest, pairs):
    sizes = ["--size", "batch=2", "--size", "length=6", "--size", "chosen=3"]
    ended = gathernest("run", pairs, "--random", "0", *sizes, "--json")
    answer = json.loads(ended.out)
    assert answer["inputs"]["picks"]["shape"] == [2, 3, 4]
    assert answer["outputs"]["first"]["shape"] == [2, 3, 4]


def test_external_data_needs_its_flag(gathernest, tmp_path, tokens):
    nodes = [helper.make_node("Gather", ["table", "tokens"], ["y"])]
    path = write(
        tmp_path / "m.onnx",
        nodes,
        {"tokens": (TensorProto.INT64, [2, 3])},
        {"y": (TensorProto.FLOAT, [2, 3, 4])},
        {"table": TABLE},
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    ended = gathernest("run", path, "--input", f"tokens={tokens}")
    assert (ended.status, "--allow-external-data" in ended.err) == (1, True)
    assert gathernest("run", path, "--input", f"tokens={tokens}", "--allow-external-data").status == 0


def test_model_that_its_runtime_rejects_is_an_error(gathernest, tmp_path):
    nodes = [helper.make_node("NoSuchOperator", ["x"], ["y"])]
    spec = (TensorProto.FLOAT, [2])
    ended = gathernest("run", write(tmp_path / "m.onnx", nodes, {"x": spec}, {"y": spec}), "--random", "0")
    assert (ended.status, ended.out) == (1, "")
    assert " does not run the model: " in ended.err and "NoSuchOperator" in ended.err
