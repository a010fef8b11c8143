"""`gathernest run`: inputs from files or at random, outputs to files, other runtimes, and every wrong command line."""

import importlib
import json
import sys
import types
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx import TensorProto, helper

import gathernest as gn
from gathernest.ir.modules.context import parse_module
from gathernest.tools.models.random_inputs import index_limits

TABLE = np.arange(24, dtype=np.float32).reshape(6, 4)
EXPORTED = Path(__file__).resolve().parents[2] / "models" / "data"


def write(path, nodes, inputs, outputs, weights=None, **settings):
    infos = [
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in entries.items()]
        for entries in (inputs, outputs)
    ]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
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


def test_list_names_gathers_and_bags(gathernest, tmp_path):
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["rows"], name="pick"),
        helper.make_node("ReduceSum", ["rows", "axes"], ["sums"], name="sum", keepdims=0),
        helper.make_node("Gather", ["sums", "tokens"], ["y"], name="again"),
    ]
    path = write(
        tmp_path / "bags.onnx",
        nodes,
        {"tokens": (TensorProto.INT64, [6, 3])},
        {"y": (TensorProto.FLOAT, [6, 3, 4])},
        {"table": TABLE, "axes": np.array([1])},
    )
    ended = gathernest("run", path, "--list")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "sum: gather_reduce 6x4xf32 by 6x3xi64, bounds error",
        "again: gather 6x4xf32 by 6x3xi64, bounds error",
    ]
    listed = json.loads(gathernest("run", path, "--list", "--json").out)["gathers"]
    assert [entry["node"] for entry in listed] == ["sum", "again"]
    report = tmp_path / "report.html"
    assert gathernest("report", path, "--no-timing", "-o", str(report)).status == 0
    assert "gather_reduce 6x4xf32" in report.read_text()


def test_list_of_a_model_without_gathers_says_so(gathernest, tmp_path):
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    spec = (TensorProto.FLOAT, [2])
    ended = gathernest("run", write(tmp_path / "neg.onnx", nodes, {"x": spec}, {"y": spec}), "--list")
    assert (ended.status, ended.out.strip()) == (0, "neg.onnx has no gather left that runs as a kernel")


def test_json_says_what_was_run(gathernest, model, tokens):
    answer = json.loads(gathernest("run", model, "--input", f"tokens={tokens}", "--json").out)
    assert answer["model"] == "model.onnx"
    assert answer["inputs"] == {"tokens": {"type": "i64[2, 3]", "shape": [2, 3]}}
    assert answer["outputs"] == {"rows/0": {"type": "2x3x4xf32", "shape": [2, 3, 4], "file": None}}
    assert answer["milliseconds"] > 0


def test_random_inputs_are_in_range_and_the_same_for_a_seed(gathernest, model, tmp_path):
    results = []
    for seed, folder in (("1", "a"), ("1", "b"), ("2", "c")):
        ended = gathernest("run", model, "--random", seed, "--output", str(tmp_path / folder))
        assert ended.status == 0
        results.append(np.load(tmp_path / folder / "rows_0.npy").tobytes())
    assert results[0] == results[1] != results[2]


def test_indices_are_followed_back_to_the_inputs_that_they_come_from(tmp_path):
    nodes = [
        helper.make_node("Cast", ["a"], ["a64"], to=TensorProto.INT64),
        helper.make_node("Concat", ["a64", "b"], ["both"], axis=0),
        helper.make_node("Gather", ["x", "both"], ["y"]),
        helper.make_node("Gather", ["n", "c"], ["z"]),
    ]
    path = write(
        tmp_path / "m.onnx",
        nodes,
        {
            "x": (TensorProto.FLOAT, [7, 2]),
            "a": (TensorProto.INT32, [3]),
            "b": (TensorProto.INT64, [3]),
            "n": (TensorProto.FLOAT, ["N"]),
            "c": (TensorProto.INT64, [3]),
        },
        {"y": (TensorProto.FLOAT, [6, 2]), "z": (TensorProto.FLOAT, [3])},
    )
    assert index_limits(gn.load(path), {}) == {"a": 7, "b": 7, "c": 1}
    assert index_limits(gn.load(path), {"N": 5}) == {"a": 7, "b": 7, "c": 5}


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


def test_stage_is_printed_and_parses(gathernest, model):
    ended = gathernest("run", model, "--stage", "gather-to-slice")
    assert ended.status == 0
    assert 'version "onnx.Gather-13" {gather.node = "pick"}' in ended.out
    parse_module(ended.out)
    every = gathernest("run", model, "--stage", "all").out
    assert every.startswith("// after operator\nbuiltin.module {")
    assert every.count("// -----") == 5
    stages = json.loads(gathernest("run", model, "--stage", "operator", "--json").out)["stages"]
    assert [stage["name"] for stage in stages] == ["operator"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (
            (),
            1,
            "the model needs the inputs tokens (i64[2, 3]); give each with --input NAME=FILE.npy, or --random SEED",
        ),
        (("--input", "tokens"), 2, "--input 'tokens' is not NAME=FILE, as in --input tokens=tokens.npy"),
        (("--input", "token=x.npy"), 1, "the model has no input 'token'; it has tokens; did you mean 'tokens'?"),
        (("--input", "tokens=there.npy"), 1, "--input tokens: there.npy: No such file or directory"),
        (("--input", "tokens=a", "--input", "tokens=b"), 2, "--input 'tokens' is given twice"),
        (("--stage", "operater"), 1, "there is no stage 'operater'; there are operator, fold-graph-constants"),
        (("--random", "x"), 2, "argument --random: expected a seed of 0 or more, got 'x'"),
        (("--list", "--stage", "operator"), 2, "--list and --stage print different things; leave out one of them"),
        (
            ("--list", "--compare", "--size", "n=3", "--output", "d"),
            2,
            "--list prints the model and runs nothing; leave out --size, --output, --compare",
        ),
        (
            ("--stage", "all", "--random", "0", "--input", "tokens=x.npy"),
            2,
            "--stage prints the model and runs nothing; leave out --input, --random",
        ),
        (("--output", __file__), 2, f"--output {__file__} is a file, and outputs go to a folder; name another"),
        (("--output", f"{__file__}/x"), 2, f"{__file__} is a file, not a folder; name another folder"),
        (("--output", ""), 2, "--output is empty; give it the name of a folder"),
        (("--rendom", "1"), 2, "there is no option --rendom; did you mean '--random'?"),
    ],
)
def test_wrong_command_line_is_one_line(gathernest, model, words, status, message):
    ended = gathernest("run", model, *words)
    assert (ended.status, ended.out) == (status, "")
    assert message in ended.err
    assert ended.err.count("\n") == 1


def test_file_that_is_no_array_is_rejected(gathernest, model, tmp_path):
    wrong = {"text": b"no array", "pickle": None, "empty": b""}
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
    assert "holds several arrays; give a .npy file, which holds one" in ended.err


def test_sizes_that_are_not_known_are_not_invented(gathernest):
    ended = gathernest("run", str(EXPORTED / "torch_lookup.onnx"), "--random", "0")
    assert (ended.status, ended.err) == (
        1,
        "gathernest: error: input 'tokens' (i64[batch, length]) has sizes that are not known; give them with "
        "--size batch=N --size length=N, or give it with --input tokens=FILE.npy\n",
    )


def test_sizes_are_given_by_name(gathernest):
    sizes = ["--size", "batch=2", "--size", "length=5", "--size", "chosen=3"]
    ended = gathernest("run", str(EXPORTED / "torch_lookup.onnx"), "--random", "0", *sizes, "--json")
    answer = json.loads(ended.out)
    assert answer["inputs"]["picks"]["shape"] == [2, 3, 8]
    assert answer["outputs"]["first"]["shape"] == [2, 8]


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--random", "0", "--size", "batch"], 2, "--size 'batch' is not NAME=N, as in --size batch=4"),
        (["--random", "0", "--size", "a=1", "--size", "a=2"], 2, "--size 'a' is given twice"),
        (["--random", "0", "--size", "bach=1"], 1, "'bach' is no size of the model; it has batch, chosen"),
        (["--size", "batch=1"], 2, "--size is for the inputs that --random fills; add --random SEED"),
    ],
)
def test_wrong_size_is_named(gathernest, options, status, message):
    ended = gathernest("run", str(EXPORTED / "torch_lookup.onnx"), *options)
    assert (ended.status, message in ended.err) == (status, True), ended.err


def test_a_seed_is_no_negative_number(gathernest):
    ended = gathernest("run", str(EXPORTED / "torch_lookup.onnx"), "--random", "-1")
    assert ended.status != 0
    assert "argument --random: expected a seed of 0 or more, got '-1'" in ended.err


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


class FakeSession:
    """ONNX Runtime as far as it is called, with an answer of our choice."""

    answer: np.ndarray | Exception

    def __init__(self, path, options, providers):
        assert Path(path).exists()

    def run(self, names, inputs):
        if isinstance(self.answer, Exception):
            raise self.answer
        return [self.answer]


@pytest.fixture
def fake_runtime(monkeypatch):
    runtime = types.ModuleType("onnxruntime")
    runtime.__version__ = "9.9"  # type: ignore[attr-defined]
    runtime.SessionOptions = types.SimpleNamespace  # type: ignore[attr-defined]
    runtime.InferenceSession = FakeSession  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)


ROWS = TABLE[[[0, 5, -1], [2, 2, 3]]]


@pytest.mark.usefixtures("fake_runtime")
@pytest.mark.parametrize(
    ("answer", "status", "line"),
    [
        (ROWS, 0, "ONNX Runtime 9.9 gives the same bytes."),
        (
            np.where(ROWS == 11, 99, ROWS).astype(np.float32),
            1,
            "output 'rows/0' differs at (1, 0, 3): np.float32(11.0) here, np.float32(99.0) from ONNX Runtime 9.9; "
            "2 of 24 elements differ",
        ),
        (ROWS[:1], 1, "output 'rows/0' differs: float32 of shape (2, 3, 4) here, float32 of shape (1, 3, 4) from"),
        (ROWS.astype(np.float64), 1, "output 'rows/0' differs: float32 of shape (2, 3, 4) here, float64 of shape"),
    ],
)
def test_comparison_looks_at_bytes(gathernest, model, tokens, monkeypatch, answer, status, line):
    monkeypatch.setattr(FakeSession, "answer", answer, raising=False)
    ended = gathernest("run", model, "--input", f"tokens={tokens}", "--compare")
    assert (ended.status, ended.err) == (status, "")
    assert line in ended.out
    found = json.loads(gathernest("run", model, "--input", f"tokens={tokens}", "--compare", "--json").out)["compare"]
    assert (found["with"], found["equal"], len(found["differences"])) == ("ONNX Runtime 9.9", not status, status)


@pytest.mark.usefixtures("fake_runtime")
def test_runtime_that_fails_is_one_line(gathernest, model, tokens, monkeypatch):
    monkeypatch.setattr(FakeSession, "answer", RuntimeError("no\nkernel"), raising=False)
    ended = gathernest("run", model, "--input", f"tokens={tokens}", "--compare")
    assert (ended.status, ended.err) == (
        1,
        "gathernest: error: ONNX Runtime 9.9 does not run the model: RuntimeError: no\n",
    )


def test_runtime_that_is_missing_is_named_with_the_command(gathernest, model, tokens, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    ended = gathernest("run", model, "--input", f"tokens={tokens}", "--compare")
    assert (ended.status, ended.err) == (
        1,
        "gathernest: error: --compare runs ONNX Runtime, which is not installed: "
        "pip install 'gathernest[onnxruntime]'\n",
    )


@pytest.mark.parametrize(
    ("name", "package"), [("torch_lookup.onnx", "onnxruntime"), ("openvino_lookup.xml", "openvino")]
)
def test_other_runtime_gives_the_same_bytes_where_it_is_installed(gathernest, tmp_path, name, package):
    try:
        importlib.import_module(package)
    except ImportError:
        pytest.skip(f"{package} is not installed")
    inputs = {"tokens": np.array([[0, 1, 2], [2, 1, 0]])}
    if name.startswith("torch"):
        inputs["picks"] = np.random.default_rng(0).integers(0, 3, (2, 4, 8))
    words = []
    for key, array in inputs.items():
        np.save(tmp_path / f"{key}.npy", array)
        words += ["--input", f"{key}={tmp_path / key}.npy"]
    ended = gathernest("run", str(EXPORTED / name), *words, "--compare")
    assert (ended.status, ended.err) == (0, "")
    assert "gives the same bytes." in ended.out
