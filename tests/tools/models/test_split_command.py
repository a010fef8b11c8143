"""`gathernest split` with the evaluator of onnx as runtime: what it prints, its files, and every wrong command line."""

import json

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx.reference import ReferenceEvaluator

from gathernest.kernels.splitting import runtime_session, runtime_sums, split_runner

TEXT = """<ir_version: 10, opset_import: ["": 21]>
    test (int64[batch, 3] ids, float[1] shift) => (float[batch, 1] y)
    <int64[1] axis = {-1}> { g = Gather (table, ids) r = ReduceMean (g, one) s = ReduceSum <keepdims = 0> (r, axis)
    y = Add (s, shift) }"""


class ReferenceSession:
    def __init__(self, model, threads=None, is_part=False):
        self.model = onnx.load(model) if isinstance(model, str) else model

    def run(self, inputs, kept=()):
        names = {info.name for info in self.model.graph.input}
        found = ReferenceEvaluator(self.model).run(None, {name: inputs[name] for name in names})
        return {info.name: np.asarray(array) for info, array in zip(self.model.graph.output, found, strict=True)}


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime_session, "RuntimeSession", ReferenceSession)
    monkeypatch.setattr(split_runner, "RuntimeSession", ReferenceSession)
    monkeypatch.setattr(runtime_sums, "RuntimeSession", ReferenceSession)
    monkeypatch.setattr(runtime_session, "require_runtime", lambda: None)
    model = onnx.parser.parse_model(TEXT)
    table = np.arange(600 * 32, dtype=np.float32).reshape(600, 32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "table"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "one"))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return str(path)


def test_both_ways_are_timed_and_compared(gathernest, path, tmp_path):
    words = ["--size", "batch=4", "--rounds", "2", "--fast-sums"]
    ended = gathernest("split", path, *words, "--out", str(tmp_path / "parts"))
    assert (ended.status, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[:2] == [
        "model.onnx: 1 lookup here, 2 nodes in ONNX Runtime",
        "  gather table by ids, mean of each bag",
    ]
    assert [line.split()[0] for line in lines[2:5]] == ["whole", "split", "gain"]
    assert lines[5].startswith(("worth splitting", "not worth splitting: below 1.05x, run it whole"))
    assert lines[6] in ("output  y: the same bytes", "output  y: elements differ by 0.000977 at most")
    rest = tmp_path / "parts" / "model.rest.onnx"
    assert lines[7] == f"written rest: {rest}"
    assert [node.op_type for node in onnx.load(rest).graph.node] == ["ReduceSum", "Add"]


def test_json_is_one_object(gathernest, path, tmp_path):
    ids = np.array([[0, 599, -1]])
    np.save(tmp_path / "ids.npy", ids)
    ended = gathernest("split", path, "--input", f"ids={tmp_path / 'ids.npy'}", "--rounds", "1", "--json")
    facts = json.loads(ended.out)
    assert facts["lookups"] == ["gather table by ids, mean of each bag"]
    assert facts["has_same_bytes"] == {"y": True} and facts["largest_difference"] == {"y": 0.0}
    assert facts["inputs"]["ids"] == {"type": "i64[batch, 3]", "shape": [1, 3]}
    assert facts["gain"] == pytest.approx(facts["whole_us"] / facts["split_us"])  # of one round
    assert facts["is_worth_splitting"] == (facts["gain"] >= 1.05)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 1, "input 'ids' (i64[batch, 3]) has sizes that are not known; give them with --size batch=N, or give it"),
        (["--size", "batch"], 2, "--size 'batch' is not NAME=N, as in --size batch=4"),
        (["--size", "bach=4"], 1, "--size 'bach' is no size of the model; it has batch; did you mean 'batch'?"),
        (["--random", "-1"], 2, "argument --random: expected a seed of 0 or more, got '-1'"),
        (["--out", __file__], 2, f"--out {__file__} is a file, and models go to a folder; name another"),
        (["--out", ""], 2, "--out is empty; give it the name of a folder"),
        (["--input", "ids"], 2, "--input 'ids' is not NAME=FILE, as in --input tokens=tokens.npy"),
        (["--input", "id=x.npy"], 1, "the model has no input 'id'; it has ids, shift; did you mean 'ids'?"),
    ],
)
def test_wrong_command_lines_say_what_is_wrong(gathernest, path, words, status, message):
    ended = gathernest("split", path, *words)
    assert ended.status == status
    assert message in ended.err
