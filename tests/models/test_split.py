"""Models split at their lookups: what is found, what the parts give, and errors; with ONNX Runtime where it is."""

import importlib.util
import sys

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx.reference import ReferenceEvaluator

import gathernest as gn
from gathernest.kernels.splitting import runtime_session, runtime_sums, split_model, split_runner
from gathernest.kernels.splitting.lookups import find_lookups
from gathernest.kernels.splitting.split_model import _has_same_bytes, _largest_difference

random = np.random.default_rng(0)
# Integers, so that sums are exact in any order.
TABLE = random.integers(-50, 50, (600, 32)).astype(np.float32)
CUBE = random.standard_normal((8, 300, 8)).astype(np.float32)
IDS = random.integers(-600, 600, (5, 7))

has_runtime = importlib.util.find_spec("onnxruntime") is not None


class ReferenceSession:
    """ONNX's reference evaluator with the interface of `RuntimeSession`."""

    def __init__(self, model, threads=None, is_part=False):
        self.is_part = is_part
        self.model = onnx.load(model) if isinstance(model, str) else model
        self.arrays = []

    def run(self, inputs, kept=()):
        names = {info.name for info in self.model.graph.input}
        self.arrays.append({name: inputs[name] for name in kept})
        found = ReferenceEvaluator(self.model).run(None, {name: inputs[name] for name in names & inputs.keys()})
        return dict(zip((info.name for info in self.model.graph.output), map(np.asarray, found), strict=True))


def use_reference(monkeypatch):
    monkeypatch.setattr(runtime_session, "RuntimeSession", ReferenceSession)
    monkeypatch.setattr(split_runner, "RuntimeSession", ReferenceSession)
    monkeypatch.setattr(runtime_sums, "RuntimeSession", ReferenceSession)
    monkeypatch.setattr(runtime_session, "require_runtime", lambda: None)
    monkeypatch.setattr(split_model, "SPINNING_S", 0)


@pytest.fixture(params=["reference", "ONNX Runtime"])
def runtime(request, monkeypatch):
    """The runtime of parts; models are split whatever it gains."""
    monkeypatch.setattr(split_model, "LEAST_GAIN", 0)
    monkeypatch.setattr(split_model, "SPINNING_S", 0)
    if request.param == "reference":
        use_reference(monkeypatch)
    elif not has_runtime:
        pytest.skip("ONNX Runtime is not installed")


BODIES = {
    "a gather": ("y = Gather (table, ids)", ["gather table by ids"]),
    "on another axis": ("g = Gather <axis = 1> (cube, ids) \n y = Neg (g)", ["gather cube by ids"]),
    "sums": ("g = Gather (table, ids) \n y = ReduceSum <keepdims = 0> (g, one)", ["ids, sum of each bag"]),
    "means that keep the dimension": (
        "g = Gather (table, ids) \n m = ReduceMean (g, minus_two) \n y = Abs (m)",
        ["ids, mean of each bag"],
    ),
    "axes in a node": (
        "a = Constant <value_ints = [1]> () \n g = Gather (table, ids) \n s = ReduceSum (g, a) \n y = Neg (s)",
        ["ids, sum of each bag"],
    ),
    "a sum over another axis": (
        "g = Gather (table, ids) \n y = ReduceSum <keepdims = 0> (g, minus_one)",
        ["gather table by ids"],
    ),
    "a result that is read twice": (
        "g = Gather (table, ids) \n s = ReduceSum (g, one) \n y = Add (g, s)",
        ["gather table by ids"],
    ),
    "indices that are computed": (
        "i = Neg (ids) \n c = Clip (i, low, high) \n g = Gather (table, c) \n y = ReduceSum (g, one)",
        ["gather table by c, sum of each bag"],
    ),
    "indices from another lookup": (
        "g = Gather (table, ids) \n c = Cast <to = 7> (g) \n a = Abs (c) \n h = Gather (other, a) \n"
        " y = ReduceSum <keepdims = 0> (h, minus_one)",
        ["gather table by ids"],
    ),
    "a masked mean": (
        "f = Cast <to = 1> (ids) \n m = Unsqueeze (f, minus_one) \n g = Gather (table, ids) \n p = Mul (m, g) \n"
        " s = ReduceSum <keepdims = 0> (p, one) \n n = ReduceSum <keepdims = 0> (m, one) \n y = Div (s, n)",
        ["gather table by ids, times m, sum of each bag"],
    ),
    "weights of one bag for all": (
        "g = Gather (table, ids) \n p = Mul (g, some) \n y = ReduceMean (p, one)",
        ["gather table by ids, times some, mean of each bag"],
    ),
    "tokens that are left out": (
        "c = Less (ids, low) \n m = Unsqueeze (c, minus_one) \n g = Gather (table, ids) \n w = Where (m, nought, g) \n"
        " y = ReduceSum (w, one)",
        ["gather table by ids but where m, sum of each bag"],
    ),
    "other elements than zeros in their place": (
        "c = Less (ids, low) \n m = Unsqueeze (c, minus_one) \n g = Gather (table, ids) \n w = Where (m, fill, g) \n"
        " y = ReduceSum (w, one)",
        ["gather table by ids"],
    ),
    "zeros in the place of tokens that are there": (
        "c = Less (ids, low) \n m = Unsqueeze (c, minus_one) \n g = Gather (table, ids) \n w = Where (m, g, nought) \n"
        " y = ReduceSum (w, one)",
        ["gather table by ids"],
    ),
    "weights of fewer dimensions": (
        "g = Gather (table, ids) \n p = Mul (few, g) \n y = ReduceSum (p, one)",
        ["gather table by ids, times few, sum of each bag"],
    ),
    "weights of more dimensions": (
        "g = Gather (table, ids) \n p = Mul (more, g) \n y = ReduceSum (p, minus_two)",
        ["gather table by ids"],
    ),
    "weights of each column": (
        "g = Gather (table, ids) \n p = Mul (all, g) \n y = ReduceSum (p, one)",
        ["gather table by ids"],
    ),
    "weights of other columns": (
        "g = Gather (table, ids) \n p = Mul (g, each) \n y = ReduceMean (p, one)",
        ["gather table by ids"],
    ),
    "weights from the rows": (
        "g = Gather (table, ids) \n h = Gather (other, ids) \n m = ReduceSum (h, minus_one) \n p = Mul (g, m) \n"
        " y = ReduceSum (p, one)",
        ["gather table by ids", "gather other by ids"],
    ),
    "a product that is read twice": (
        "g = Gather (table, ids) \n p = Mul (g, some) \n s = ReduceSum (p, one) \n y = Add (p, s)",
        ["gather table by ids"],
    ),
    "two tables": (
        "g = Gather (table, ids) \n h = Gather (other, ids) \n y = Add (g, h)",
        ["gather table by ids", "gather other by ids"],
    ),
}


def model_of(body: str) -> onnx.ModelProto:
    text = f"""<ir_version: 10, opset_import: ["": 21]>
    test (int64[b, n] ids) => (float[k, l] y) {{ {body} }}"""
    model = onnx.parser.parse_model(text)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    weights = {
        "table": TABLE,
        "other": TABLE[::-1].copy(),
        "cube": CUBE,
        "vector": np.zeros(2**15, np.float32),
        "one": np.array([1]),
        "minus_one": np.array([-1]),
        "minus_two": np.array([-2]),
        "some": np.arange(7, dtype=np.float32).reshape(1, 7, 1),
        "nought": np.array(0, np.float32),
        "fill": np.array(1, np.float32),
        "few": np.arange(7, dtype=np.float32).reshape(7, 1),
        "more": np.arange(7, dtype=np.float32).reshape(1, 1, 7, 1),
        "all": np.ones((1, 7, 32), np.float32),
        "each": np.arange(32, dtype=np.float32),
        "low": np.array(-600 if "Clip" in body else 100),
        "high": np.array(599),
    }
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in weights.items() if name in used
    )
    return model


@pytest.mark.draw(28)
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("sums", [False, True], ids=["sums of ONNX Runtime", "fast sums"])
def test_parts_give_what_the_whole_model_gives(name, sums, runtime):
    body, lookups = BODIES[name]
    model = model_of(body)
    ids = IDS % 8 if name == "indices from another lookup" else IDS % 300
    split = gn.split(model, fast_sums=sums)
    assert [str(lookup).endswith(wanted) for lookup, wanted in zip(split.lookups, lookups, strict=True)] == [
        True
    ] * len(lookups)
    tables = {tensor.name for part in split.parts.values() for tensor in part.graph.initializer}
    assert tables.isdisjoint(lookup.table for lookup in split.lookups)
    (wanted,) = ReferenceEvaluator(model).run(None, {"ids": ids})
    for _ in range(2):
        got = split(ids=ids)["y"]
        assert (got.shape, got.dtype, got.tobytes()) == (wanted.shape, wanted.dtype, wanted.tobytes())


def floats(*shape):
    return onnx.numpy_helper.from_array(random.standard_normal(shape, dtype=np.float32))


# A recommender's bags beside its dense part, and a static embedding's mean.
MODELS = {
    "DLRM": (
        """(float[b, 13] dense, int64[b, n] ids, int64[b, n] ids2) => (float[b, 1] y) {
        bottom = Gemm (dense, w0) r = Relu (bottom) g = Gather (table, ids) s = ReduceSum <keepdims = 0> (g, one)
        h = Gather (other, ids2) t = ReduceSum <keepdims = 0> (h, one) c = Concat <axis = 1> (r, s, t)
        top = Gemm (c, w1) y = Tanh (top) }""",
        {"table": (600, 32), "other": (700, 32), "w0": (13, 32), "w1": (96, 1)},
        ["gather table by ids, sum of each bag", "gather other by ids2, sum of each bag"],
    ),
    "static embeddings": (
        """(int64[b, n] ids) => (float[b, 8] y) {
        g = Gather (table, ids) m = ReduceMean <keepdims = 0> (g, one) p = MatMul (m, w0) y = Tanh (p) }""",
        {"table": (600, 32), "w0": (32, 8)},
        ["gather table by ids, mean of each bag"],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_sums_and_means_of_floats_have_the_bytes_of_the_whole_model(name, runtime):
    text, weights, lookups = MODELS[name]
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 21]> test {text}""")
    for weight, shape in weights.items():
        model.graph.initializer.append(floats(*shape))
        model.graph.initializer[-1].name = weight
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "one"))
    split = gn.split(model)
    assert [str(lookup) for lookup in split.lookups] == lookups
    for bags, length in ((1, 9), (5, 4), (64, 33)):
        ids = random.integers(-600, 600, (2, bags, length))
        arrays = {"dense": random.standard_normal((bags, 13), dtype=np.float32), "ids": ids[0], "ids2": ids[1]}
        found = split.compare({key: arrays[key] for key in split.inputs}, rounds=1)
        assert found.has_same_bytes == {"y": True}


def test_outputs_that_differ_are_told_apart():
    zero = np.zeros(2, np.float32)
    assert not _has_same_bytes(zero, -zero) and _largest_difference(zero, -zero) == 0.0
    nan = np.array([np.nan, 1.0])
    assert not _has_same_bytes(nan, nan + 1) and _largest_difference(nan, nan + 1) == 1.0
    texts = np.array(["a", "b"], object)
    assert _has_same_bytes(texts, texts.copy()) and _largest_difference(texts, texts[::-1]) == np.inf
    assert _largest_difference(zero, zero[:1]) == np.inf


def test_memory_of_results_is_used_again_and_outputs_are_new(monkeypatch):
    use_reference(monkeypatch)
    monkeypatch.setattr(split_model, "LEAST_GAIN", 0)
    monkeypatch.setattr(split_model, "SPINNING_S", 0)
    split = gn.split(model_of(BODIES["sums"][0] + "\n z = Neg (y)"))
    assert split.parts == {}
    assert split(ids=IDS)["y"] is not split(ids=IDS)["y"]
    split = gn.split(model_of(BODIES["on another axis"][0]))
    for ids in (IDS % 300, (IDS % 300) // 2, IDS[:2] % 300):
        split(ids=ids)
    first, second, third = (arrays["g"] for arrays in split._split._sessions["rest"].arrays[-3:])
    assert first is second and third is not first


def test_comparison_has_times_and_bytes(runtime):
    split = gn.split(model_of(BODIES["sums"][0]))
    found = split.compare({"ids": IDS}, rounds=4)
    assert (found.has_same_bytes, found.largest_difference, found.rounds) == ({"y": True}, {"y": 0.0}, 4)
    assert found.gain > 0 and found.split_us > 0


def test_comparison_waits_until_no_thread_of_the_other_way_spins(monkeypatch):
    use_reference(monkeypatch)
    monkeypatch.setattr(split_model, "SPINNING_S", 0.125)
    paused, timed = [], split_model.time_interleaved

    def spy(calls, *, rounds, settle_s):
        paused.append(settle_s)
        return timed(calls, rounds=rounds)

    monkeypatch.setattr(split_model, "time_interleaved", spy)
    gn.split(model_of(BODIES["sums"][0])).compare({"ids": IDS}, rounds=1)
    assert paused == [0.125]


def test_threads_of_parts_alone_wait_in_no_loop(monkeypatch):
    use_reference(monkeypatch)
    split = gn.split(model_of(BODIES["a masked mean"][0]))
    split.compare({"ids": IDS}, rounds=1)
    assert [session.is_part for session in split._split._sessions.values()] == [True, True]
    assert not split._whole.is_part


@pytest.mark.parametrize(
    ("gain", "differs", "fast_sums", "is_split"),
    [(1.04, 0, False, False), (1.06, 0, False, True), (1.06, 1e-6, False, False), (1.06, 1e-6, True, True)],
)
def test_trial_leaves_a_model_whole_that_does_not_gain_or_has_other_bytes(
    monkeypatch, gain, differs, fast_sums, is_split
):
    use_reference(monkeypatch)
    compared = split_model.Comparison(1.0, 1.0, 9, gain, {"y": not differs}, {"y": differs})
    trials = []
    monkeypatch.setattr(split_model.SplitModel, "compare", lambda self, inputs: trials.append(inputs) or compared)
    model = model_of(BODIES["axes in a node"][0])
    split = gn.split(model, fast_sums=fast_sums)
    assert not trials  # the first call is the trial
    results = [split(ids=IDS)["y"].tobytes() for _ in range(2)]
    assert results[0] == results[1] and len(trials) == 1
    assert (bool(split.lookups), bool(split.parts)) == (is_split, is_split)
    assert repr(split).endswith("1 lookup here>" if is_split else "left whole>")
    assert bool(gn.split(model, {"ids": IDS}, fast_sums=fast_sums).lookups) == is_split
    assert len(trials) == 2


def test_small_tables_and_other_domains_stay_in_the_model():
    model = model_of("y = Gather (table, ids)")
    model.graph.node[0].domain = "custom"
    assert find_lookups(model) == []
    model.graph.node[0].domain = "ai.onnx"
    assert len(find_lookups(model)) == 1
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(TABLE[:100], "table"))
    assert find_lookups(model) == []


def test_products_of_other_domains_and_of_old_opsets_stay_in_the_model():
    model = model_of(BODIES["weights of one bag for all"][0])
    product = model.graph.node[1]
    product.domain = "custom"
    assert [str(lookup) for lookup in find_lookups(model)] == ["gather table by ids"]
    product.domain = ""
    assert len(find_lookups(model)[0].nodes) == 3
    product.attribute.add(name="broadcast", i=1, type=onnx.AttributeProto.INT)
    assert [str(lookup) for lookup in find_lookups(model)] == ["gather table by ids"]


def test_rows_that_are_an_output_are_not_added_up_unseen():
    model = model_of(BODIES["sums"][0])
    model.graph.output.add(name="g")
    assert [str(lookup) for lookup in find_lookups(model)] == ["gather table by ids"]


def _in_file(name):
    tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=[1], data_location=1)
    tensor.external_data.add(key="location", value="w.bin")
    return tensor


def _with_file_in(place):
    model = model_of("y = Gather (table, ids)")
    if place == "Constant":
        model.graph.node.append(onnx.helper.make_node("Constant", [], ["c"], value=_in_file("w")))
    else:
        body = onnx.helper.make_graph([], "body", [], [], [_in_file("w")])
        model.graph.node.append(onnx.helper.make_node("If", ["x"], [], then_branch=body, else_branch=body))
    return model


def test_errors_say_what_is_wrong(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(gn.DependencyError, match="ONNX Runtime, which is not installed: pip install onnxruntime"):
        gn.split(model_of("y = Gather (table, ids)"))
    use_reference(monkeypatch)
    with pytest.raises(gn.ModelError, match=r"no Gather of .* 64 KiB or more and two dimensions or more; run"):
        gn.split(model_of("y = Neg (ids)"))
    with pytest.raises(gn.ModelError, match="two dimensions or more"):
        gn.split(model_of("y = Gather (vector, ids)"))
    path = tmp_path / "model.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(gn.ModelError, match="is not an ONNX model, or damaged"):
        gn.split(path)
    path.write_bytes(model_of("y = Gather (table, ids)").SerializeToString())
    split = gn.split(path)
    with pytest.raises(gn.BoundsError, match=r"^table 'table': index 600 at "):
        split(ids=np.array([[600]]))
    with pytest.raises(gn.ModelError, match="input 'ids' must have dtype int64, got int32"):
        split(ids=IDS.astype(np.int32))
    with pytest.raises(gn.ModelError, match=r"the model has no input 'idx'; it has ids; did you mean 'ids'\?"):
        split(idx=IDS)
    with pytest.raises(gn.BoundsError, match=r"\(1 of 1 indices are out of range\)$|of size 600$"):
        split(np.array([[600]]))
    with pytest.raises(gn.ModelError, match=r"inputs are a dict of arrays by name, as .*, got list"):
        split.run([IDS])
    with pytest.raises(gn.ModelError, match="rounds must be a whole number from 1, got 0"):
        split.compare({"ids": IDS}, rounds=0)
    for place in ("Constant", "If"):
        with pytest.raises(gn.ModelError, match=r"^tensor 'w' lies in another file, which only initializers of the ma"):
            gn.split(_with_file_in(place))
    model = model_of("y = Gather (table, ids)")
    model.graph.initializer.append(_in_file("w"))
    with pytest.raises(gn.ModelError, match=r"initializer 'w' lies in another file, .* this model has no folder"):
        gn.split(model)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(gn.ModelError, match=r"w\.bin cannot be read: No such file"):
        gn.split(path, allow_external_data=True)
    model = model_of("y = Gather (table, ids)")
    graph = model.graph
    for _ in range(200):
        attribute = graph.node.add(op_type="If", output=["c"]).attribute.add(name="then_branch", type=5)
        graph = attribute.g
    with pytest.raises(gn.ModelError, match=r"^the model is damaged: .*MaxDepth"):
        gn.split(model)
    with pytest.raises(gn.ModelError, match="only ONNX models are split; gathernest run takes it"):
        gn.split("model.xml")
    with pytest.raises(gn.ModelError, match=r"path of a .onnx file or an onnx.ModelProto, got builtins.bytes"):
        gn.split(b"model")
