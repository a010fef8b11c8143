"""`gn.load`: every model runs as in its runtime, and its gathers run here where that pays."""

import copy
import dataclasses
import gc
import pickle
import re
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

import gathernest as gn
from gathernest.interop.models import model as models

from .cutting import check_gathers

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, pytest.importorskip("onnx.numpy_helper")
from .corpus import hand_made  # noqa: E402

HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'
# An embedding bag as torch.onnx.export(dynamo=False) writes it; OP is a reduction.
SCRIPT_BAG = """
one (int64[n] idx, int64[b] offsets, float[n] weights) => (float[b, 8] bags)
<float[50, 8] table>
{
  true = Constant <value = bool {1}> ()
  zero = Constant <value = int64[1] {0}> ()
  first = Constant <value = int64[1] {1}> ()
  many = Constant <value = int64[1] {9223372036854775807}> ()
  size = Shape (idx)
  starts = Concat <axis = 0> (offsets, size)
  ends = Slice (starts, first, many, zero, first)
  vector = Shape (ends)
  place = Constant <value = int64 {0}> ()
  count = Gather <axis = 0> (vector, place)
  bags = Loop (count, true) <body = body (int64 i, bool c) => (bool going, float[q] row) {
    start = Gather <axis = 0> (starts, i)
    end = Gather <axis = 0> (ends, i)
    axis = Constant <value = int64[1] {0}> ()
    from = Unsqueeze (start, axis)
    to = Unsqueeze (end, axis)
    part = Slice (idx, from, to, axis)
    rows = Gather <axis = 0> (table, part)
    FACTORS
    row = OP <keepdims = 0> (products, axis)
    going = Cast <to = 9> (true)
  }>
}
"""
WEIGHTED = """column_at = Constant <value = int64[1] {1}> ()
    parts = Slice (weights, from, to, axis)
    column = Unsqueeze (parts, column_at)
    products = Mul (rows, column)"""
# The same as torch.onnx.export(dynamo=True) writes it: all rows first, and a sequence of bags.
DYNAMO_BAG = """
one (int64[n] idx, int64[b] offsets, float[n] weights) => (float[m, 8] bags)
<float[50, 8] table, int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64[1] axis = {0}, int64[1] flat = {-1},
 int64[1] column_at = {1}>
{
  rows = Gather (table, idx)
  column = Unsqueeze (weights, column_at)
  products = Mul (rows, column)
  size = Shape (idx)
  count = Size (offsets)
  all = Concat <axis = 0> (offsets, size)
  empty = SequenceEmpty ()
  begins = Less (zero, count)
  last, seq = Loop ("", begins, zero, empty) <body = body (int64 n, bool c, int64 i, s) => (bool going, int64 j, t) {
    at = Reshape (i, flat)
    one_like = CastLike (one, at)
    next = Add (at, one_like)
    start = Slice (all, at, next)
    two_like = CastLike (two, at)
    behind = Add (at, two_like)
    end = Slice (all, next, behind)
    none = Equal (start, end)
    row = If (none) <then_branch = a () => (float[1, 8] zeros) <float[1, 8] zeros = {0,0,0,0,0,0,0,0}> {},
                     else_branch = b () => (float[1, 8] found) {
      part = Slice (products, start, end)
      found = OP (part, axis)
    }>
    t = SequenceInsert (s, row)
    one_again = CastLike (one, i)
    j = Add (i, one_again)
    going = Less (j, count)
  }>
  bags = ConcatFromSequence <axis = 0> (seq)
}
"""
# The loop of a bag that torch.onnx.export(dynamo=True) writes for a padding index, here 3.
PADDED_ROW = """start = Gather (all, i)
    one_like = CastLike (one, i)
    next = Add (i, one_like)
    end = Gather (all, next)
    some = Less (start, end)
    places, behind = Loop ("", some, nothing, start) <body = inner (int64 m, bool d, p, v) => (bool more, q, int64 w) {
      index = Gather (idx, v)
      zero_like = CastLike (zero, index)
      below = Less (index, zero_like)
      number = If (below) <then_branch = e () => (wrapped) { wrapped = Add (index, rows_in_table) },
                           else_branch = e () => (same) { same = Identity (index) }>
      is_padding = Equal (number, padding)
      is_kept = Not (is_padding)
      q = If (is_kept) <then_branch = g () => (longer) { at = Reshape (v, flat) longer = Concat <axis = 0> (p, at) },
                        else_branch = h () => (before) { before = Identity (p) }>
      one_more = CastLike (one, v)
      w = Add (v, one_more)
      more = Less (w, end)
    }>
    size_of_bag = Size (places)
    zero_size = CastLike (zero, size_of_bag)
    none = Equal (size_of_bag, zero_size)
    row = If (none) <then_branch = a () => (float[1, 8] zeros) <float[1, 8] zeros = {0,0,0,0,0,0,0,0}> {},
                     else_branch = b () => (float[1, 8] found) {
      part = Gather (products, places)
      found = OP (part, axis)
    }>
"""
# The loop inside may carry its two values in the other order.
OTHER_ROW = PADDED_ROW.replace("places, behind = Loop", "behind, places = Loop").replace(
    "nothing, start", "start, nothing"
)
OTHER_ROW = OTHER_ROW.replace("d, p, v) => (bool more, q, int64 w)", "d, v, p) => (bool more, int64 w, q)")
i, j = DYNAMO_BAG.index("at = Reshape"), DYNAMO_BAG.index("    t = SequenceInsert")
PADDED_BAGS = [
    f"{DYNAMO_BAG[:i]}{row}{DYNAMO_BAG[j:]}".replace(
        "int64 two = {2}", "int64 padding = {3}, int64 rows_in_table = {50}, int64[0] nothing = {}"
    )
    for row in (PADDED_ROW, OTHER_ROW)
]
# A batch of a known size, as torch.onnx.export(dynamo=True) writes it: counts, offsets and factors are constants.
FIXED_BAG = DYNAMO_BAG.replace("int64[n] idx, int64[b] offsets, float[n] weights", "int64[20] idx")
FIXED_BAG = FIXED_BAG.replace("int64[1] column_at = {1}", "COUNTS")
FIXED_BAG = re.sub(r" +(column|size|count|all|begins) = .*\n", "", FIXED_BAG)
COUNTS = "int64[1] size = {20}, int64[5] all = {0, 5, 10, 15, 20}, int64 count = {4}, int64 last_bag = {3}"
FIXED_MEAN = """is_last = Equal (i, last_bag)
      found = If (is_last) <then_branch = e () => (mean) {
        total = ReduceSum (part, axis)
        length = Sub (size, start)
        zero_like = CastLike (zero, length)
        some = Greater (length, zero_like)
        mean = If (some) <then_branch = g () => (quotient) { divisor = Cast <to = 1> (length)
                                                             quotient = Div (total, divisor) },
                          else_branch = h () => (same) { same = Identity (total) }>
      }, else_branch = f () => (other) { other = ReduceMean (part, axis) }>"""


def fixed_bag(kind: str, counts: str = COUNTS, factors: tuple[int, ...] = (20, 1)):
    text = FIXED_BAG.replace(
        "found = OP (part, axis)", FIXED_MEAN if kind == "mean" else f"found = {kind} (part, axis)"
    )
    return parse(text.replace("COUNTS", counts), table=TABLE, begins=True, column=np.ones(factors, np.float32))


def parse(text, **tensors):
    """Return the model of a text, with tensors in the place of initializers that have no values."""
    model = onnx.parser.parse_model(HEAD + text)
    for tensor in [tensor for tensor in model.graph.initializer if tensor.name in tensors]:
        model.graph.initializer.remove(tensor)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in tensors.items())
    return model


RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((50, 8)).astype(np.float32)
ROWS = "one (int64[n, 3] i) => (float[n, 3, 8] y) <float[50, 8] table> { y = Gather (table, i) }"
LOOKUP = """
lookup (int64[batch, 3] tokens) => (float[batch, 3, 2] picked)
<float[4, 2] table = {0, 1, 10, 11, 20, 21, 30, 31}, int64[2] columns = {-1, 0}>
{
  rows = Gather (table, tokens)
  picked = Gather <axis = 2> (rows, columns)
}
"""


@pytest.fixture
def onnxruntime():
    return pytest.importorskip("onnxruntime")


def test_model_runs_by_position_by_name_and_from_bytes_and_files(runtime, tmp_path):
    proto, tokens = parse(LOOKUP), np.array([[0, 3, -1]])
    path = tmp_path / "lookup.onnx"
    onnx.save(proto, path)
    for source in (proto, proto.SerializeToString(), path, str(path)):
        model = gn.load(source)
        for outputs in (model(tokens), model(tokens=tokens), model.run({"tokens": [[0, 3, -1]]})):
            assert outputs["picked"].tolist() == [[[1, 0], [31, 30], [31, 30]]]
    assert repr(model) == "<gathernest model lookup.onnx: (tokens: i64[batch, 3]) -> (picked)>"
    assert runtime.replace("onnxruntime", "ONNX Runtime") in model.plan.runtime


def test_plan_says_of_each_gather_where_it_runs_and_why(runtime):
    model = gn.load(parse(LOOKUP))
    assert [(entry.node, entry.kind, entry.is_here) for entry in model.plan] == [
        ("rows", "Gather", False),
        ("picked", "Gather", False),
    ]
    assert "is decided when the model runs" in str(model.plan)
    model(np.array([[0, 3, -1]]))
    lines = str(model.plan).splitlines()
    assert lines[0].endswith("runs the model; 0 of 2 gathers run here")
    assert lines[1:] == ["2 gathers: rows, picked", "  runtime: too small to be worth another call of the runtime"]
    assert str(next(iter(model.plan))).splitlines() == ["rows: Gather of table (4, 2) by tokens (1, 3)", lines[2]]


def test_plan_says_what_was_tried_and_why_it_stays(onnxruntime):
    runtime = gn.load(parse(LOOKUP)).runtime
    plan = models._plan(runtime, (), {}, "slower here", tried=runtime.gathers[:1])
    assert [entry.reason for entry in plan] == ["slower here", models.UNTRIED]


def test_plan_gives_no_reason_of_another_trial(onnxruntime):
    model = gn.load(parse(LOOKUP))
    with pytest.raises(gn.ModelError, match="out of data bounds"):
        model.runtime.cut([*model.runtime.gathers])({"tokens": np.array([[0, 99, 1]])})
    model(np.array([[0, 3, -1]]))
    assert {entry.reason for entry in model.plan} == {"too small to be worth another call of the runtime"}


def test_plan_says_that_the_cut_model_did_not_win_each_turn(monkeypatch):
    monkeypatch.setattr(models, "SPINNING_NS", 0)
    turns = models._take_turns(run := object(), cut := object())  # type: ignore[arg-type]
    way, counted, settled = next(turns), 0, None
    while settled is None:
        counted += way is cut
        try:
            way = turns.send(2000 if way is run else 3000 if 5 <= counted <= 8 else 1000)  # it loses the second turn
        except StopIteration as end:
            settled = end.value
    assert settled[0] is run and not settled[2]
    assert settled[1].endswith("1 µs with such gathers here, 2 µs without, but not in each turn of the trial")


def test_a_function_of_a_runtime_outlives_its_model(onnxruntime):
    table = np.random.default_rng(0).random((50_000, 8), np.float32)
    text = "one (int64[n] ids) => (float[n, 8] y) <float[50000, 8] table> { y = Gather (table, ids) }"
    run = gn.load(parse(text, table=table)).runtime.run
    gc.collect()
    assert run({"ids": np.arange(50_000)})[0].tobytes() == table.tobytes()


def test_large_tensors_of_elements_that_numpy_does_not_have_stay_in_the_model(onnxruntime):
    table = np.random.default_rng(0).random((300, 8), np.float32).astype(ml_dtypes.float8_e5m2)
    text = """one (int64[n] ids) => (float[n, 8] y) <float8e5m2[300, 8] table>
        { t = Cast <to = 1> (table) y = Gather (t, ids) }"""
    ids = np.array([3, -1, 299])
    assert gn.load(parse(text, table=table))(ids)["y"].tobytes() == table.astype(np.float32)[ids].tobytes()


def test_gathers_are_problems_that_compile():
    model = gn.load(parse(LOOKUP))
    assert [str(problem.table) for problem in model.gathers(5).values()] == ["4x2xf32", "5x3x2xf32"]
    assert model.gather("rows", 7) == model.gather("rows", np.int64(7))
    assert model.gather("rows", 7).indices.shape == (7, 3)
    with pytest.raises(gn.ModelError, match="has no gather 'row'; it has rows, picked; did you mean 'rows'"):
        model.gather("row")
    with pytest.raises(gn.ModelError, match=r"has no gather \['rows'\]; it has rows, picked$"):
        model.gather(["rows"])  # pyright: ignore[reportArgumentType]


BAG_INPUTS = {
    "idx": RNG.integers(-50, 50, 20),
    "offsets": np.array([0, 3, 9, 15]),
    "weights": RNG.random(20, np.float32),
}
EVEN = {**BAG_INPUTS, "offsets": np.array([0, 5, 10, 15])}
EMPTY = {**BAG_INPUTS, "offsets": np.array([0, 0, 9, 20])}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # onnx.reference takes means of nothing
@pytest.mark.parametrize("inputs", [BAG_INPUTS, EVEN, EMPTY], ids=["uneven", "even", "empty"])
@pytest.mark.parametrize("reduce", ["ReduceSum", "ReduceMean", "ReduceMax", "weighted"])
def test_loop_of_the_script_exporter_is_an_embedding_bag(runtime, inputs, reduce):
    factors, kind = (WEIGHTED, "ReduceSum") if reduce == "weighted" else ("products = Identity (rows)", reduce)
    text = SCRIPT_BAG.replace("FACTORS", factors).replace("OP", kind)
    check_gathers(parse(text, table=TABLE), inputs, ["embedding bag (Loop)"])


@pytest.mark.parametrize("reduce", ["ReduceSum", "ReduceMean", "ReduceMax"])
def test_loop_over_a_sequence_of_the_dynamo_exporter_is_an_embedding_bag(runtime, reduce):
    text = DYNAMO_BAG.replace("OP", reduce)
    inputs = {**BAG_INPUTS, "weights": np.ones(20, np.float32)}
    check_gathers(parse(text, table=TABLE), inputs, ["Gather", "embedding bag (Loop)"])


@pytest.mark.parametrize("kind", ["ReduceSum", "mean", "ReduceMax"])
def test_loop_of_a_batch_of_a_known_size_is_an_embedding_bag(runtime, kind):
    check_gathers(fixed_bag(kind), {"idx": BAG_INPUTS["idx"]}, ["embedding bag (Loop)"])


@pytest.mark.parametrize(
    ("counts", "factors"),
    [
        (COUNTS.replace("last_bag = {3}", "last_bag = {2}"), (20, 1)),
        (COUNTS.replace("size = {20}", "size = {19}"), (20, 1)),
        (COUNTS, (20, 8)),
        (COUNTS, (8,)),
    ],
)
def test_constants_that_are_no_bags_of_a_batch_are_left_to_the_runtime(onnxruntime, counts, factors):
    proto, idx = fixed_bag("mean", counts, factors), BAG_INPUTS["idx"]
    (wanted,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"idx": idx})
    model = gn.load(proto)
    (*_, bags) = (found for found in model.runtime.gathers if not found.remark)
    assert bags.kind == "embedding bag (Loop)"
    (found,) = model.runtime.cut([bags])({"idx": idx})
    assert found.tobytes() == model.run({"idx": idx})["bags"].tobytes() == wanted.tobytes()


def test_a_tensor_that_nothing_reads_is_left_out(runtime):
    model = parse(ROWS, table=TABLE, unused=np.arange(2000))
    assert gn.load(model)(RNG.integers(0, 50, (4, 3)))["y"].shape == (4, 3, 8)


@pytest.mark.parametrize("bag", PADDED_BAGS, ids=["", "other order"])
@pytest.mark.parametrize("reduce", ["ReduceSum", "ReduceMean", "ReduceMax", "weighted"])
def test_loop_that_leaves_a_padding_index_out_is_an_embedding_bag(runtime, reduce, bag):
    idx = np.array([3, 3, 0, -47, 7, 3, -1, 2, 3, 49, 11, 3])
    weights = RNG.random(12, np.float32) if reduce == "weighted" else np.ones(12, np.float32)
    model = parse(bag.replace("OP", "ReduceSum" if reduce == "weighted" else reduce), table=TABLE)
    inputs = {"idx": idx, "offsets": np.array([0, 2, 2, 6]), "weights": weights}
    check_gathers(model, inputs, ["Gather", "embedding bag (Loop)"])


REDUCED = [name for name, kinds in hand_made.KINDS.items() if kinds and kinds[0].startswith("Reduce")]


@pytest.mark.draw(6)
@pytest.mark.parametrize("bag", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("name", REDUCED)
def test_sum_or_mean_of_gathered_rows_has_the_bytes_of_the_runtime_for_bags_of_any_size(runtime, name, bag):
    model = hand_made.make(name)
    for info in model.graph.input:
        info.type.tensor_type.shape.dim[1].dim_value = bag
    check_gathers(model, hand_made.inputs_of(model, 33), hand_made.KINDS[name])


def test_inputs_and_outputs_are_those_of_the_runtime(onnxruntime):
    text = """one (string[n] words, int64[n] i, float[2] scale) => (string[n] picked, float[2] twice, float[2] twice)
        <float[2] scale = {3, 4}> { picked = Gather (words, i) twice = Add (scale, scale) }"""
    proto = parse(text)
    proto.ir_version = 10
    model = gn.load(proto)
    assert [*model.inputs] == ["words", "i"]
    assert str(model.inputs["words"]) == "str[n]"
    words = np.array(["a", "bc", ""])
    outputs = model(words=words, i=np.array([2, 1, 0]))
    assert outputs["picked"].tolist() == ["", "bc", "a"]
    assert outputs["twice"].tolist() == [6, 8]
    assert model(words, [0], scale=np.float32([1, 2]))["twice"].tolist() == [2, 4]
    # Sizes of one name may differ: the runtime does not compare them.
    assert model(words, np.array([0, 1, 2, 2]))["picked"].tolist() == ["a", "bc", "", ""]


def test_elements_that_numpy_does_not_have_and_other_byte_orders_are_taken(onnxruntime):
    proto = parse("one (bfloat16[n] x, float[n] z) => (bfloat16[n] y, float[n] w) { y = Identity (x) w = Neg (z) }")
    x, z = np.arange(4).astype(ml_dtypes.bfloat16), np.arange(4, dtype=">f4")
    outputs = gn.load(proto)(x, z)
    assert outputs["y"].dtype == ml_dtypes.bfloat16
    assert outputs["y"].tolist() == [0, 1, 2, 3]
    assert outputs["w"].tolist() == [0, -1, -2, -3]
    assert outputs["w"].dtype == np.float32


def test_sequences_are_taken_and_given(runtime):
    proto = parse("one (float[n] x) => (seq(float[n]) y) { y = SequenceConstruct (x, x) }")
    assert [array.tolist() for array in gn.load(proto)(np.float32([1, 2]))["y"]] == [[1, 2], [1, 2]]


def test_dequantized_table_is_read_by_rows_after_a_trial(onnxruntime):
    text = """one (int64[n] i) => (float[n, 64] y) <int8[200000, 64] table, float s = {0.5}>
        { t = DequantizeLinear (table, s) y = Gather (t, i) }"""
    table = RNG.integers(-99, 99, (200000, 64)).astype(np.int8)
    model = gn.load(parse(text, table=table))
    i = np.array([7, -1, 3])
    for _ in range(20_000):
        assert np.array_equal(model(i)["y"], table[i] * np.float32(0.5))
        if model.plan.entries[0].is_here:
            break
    (entry,) = model.plan
    assert entry.is_here
    assert "µs with such gathers here" in entry.reason


@pytest.mark.parametrize("calls", [0, 1, 9, 60])
def test_a_model_that_nobody_needs_leaves_its_runtime_at_once(runtime, calls):
    text = "one (int64[n] i) => (float[n, 64] y) <float[20000, 64] table> { y = Gather (table, i) }"
    model, i = gn.load(parse(text, table=RNG.random((20000, 64), np.float32))), RNG.integers(0, 20000, 30000)
    gc.collect()
    gc.disable()
    try:
        for _ in range(calls):
            model(i)
        left = weakref.ref(model.runtime)
        del model
        assert left() is None
    finally:
        gc.enable()


def test_threads_may_call_one_model(onnxruntime):
    model = gn.load(parse(ROWS, table=TABLE))
    right = []

    def call(seed):
        rng = np.random.default_rng(seed)
        for _ in range(50):
            i = rng.integers(-50, 50, (int(rng.integers(1, 200)), 3))
            right.append(np.array_equal(model(i=i)["y"], TABLE[i]))

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 200


def test_random_operators_are_left_to_the_runtime(onnxruntime):
    text = "one (int64[n] i) => (float[n, 8] y) <float[50, 8] table> { x = RandomNormalLike (table) y = Gather (x, i) }"
    model = gn.load(parse(text, table=TABLE))
    assert model(RNG.integers(0, 50, 100_000))["y"].shape == (100_000, 8)


WRONG_CALLS = {
    "no input": (lambda model: model(), "input 'tokens' is missing; it is i64[batch, 3]"),
    "two": (lambda model: model([[0, 0, 0]], 1), "the model has 1 input, tokens; got 2"),
    "twice": (
        lambda model: model([[0, 0, 0]], tokens=1),
        "input 'tokens' is given by position and by name; give it once",
    ),
    "other name": (lambda model: model(token=1), "no input 'token'; it has tokens; did you mean 'tokens'?"),
    "no mapping": (lambda model: model.run([1]), "inputs are a dict of arrays by name, as {'name': array}, got list"),
    "outside": (lambda model: model(np.array([[0, 4, 0]])), "does not run the model: "),
    "dtype": (lambda model: model(np.float32([[0, 1, 0]])), "does not run the model: "),
    "fractions": (lambda model: model([[0.5, 1, 2]]), "input 'tokens' is i64[batch, 3], got a value of type list"),
    "text": (lambda model: model([["0", "1", "2"]]), "its values are not of that type"),
    "letters": (lambda model: model([["a", "b", "c"]]), "type list, which is no such array: invalid literal"),
    "nothing": (lambda model: model(None), "got a value of type NoneType, which is no such array"),
    "ragged": (lambda model: model([[1], [2, 3]]), "got a value of type list, which is no such array"),
    "large": (lambda model: model([[2**70, 0, 0]]), "got a value of type list, which is no such array"),
    "masked": (lambda model: model(np.ma.array([[0, 1, 2]], mask=[[0, 1, 0]])), "pass its .filled(value)"),
    "masked element": (lambda model: model([[0, np.ma.masked, 2]]), "input 'tokens' has a masked element"),
    "pickle": (pickle.dumps, "cannot be copied or pickled, as its runtime holds it"),
    "deepcopy": (copy.deepcopy, "gathernest.load it again in each process"),
    "negative size": (lambda model: model.gathers(-1), "size=-1 is no size of a dimension"),
    "an object": (lambda model: model(object()), "got a value of type object, which is no such array"),
    "long size": (lambda model: model.gathers(16**5000), "size=an integer of 20001 bits is no size of a dimension"),
    "size of text": (lambda model: model.gather("rows", "8"), "size='8' is no size of a dimension"),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_call_is_one_model_error(onnxruntime, name):
    call, message = WRONG_CALLS[name]
    model = gn.load(parse(LOOKUP))
    with pytest.raises(gn.ModelError) as raised:
        call(model)
    assert message in str(raised.value)
    assert raised.value.__cause__ is None


LISTS = [[[0, 1, 1]], [[0.0, 1.0, 1.0]], [[False, True, True]], [(np.int8(0), np.uint64(1), 1)]]


@pytest.mark.parametrize("tokens", LISTS)
def test_list_gets_the_dtype_of_the_input_where_that_keeps_its_values(runtime, tokens):
    model = gn.load(parse(LOOKUP))
    assert model(tokens)["picked"].tolist() == [[[1, 0], [11, 10], [11, 10]]]


def test_index_outside_gives_the_error_of_the_runtime_where_the_gather_runs_here(onnxruntime):
    model = gn.load(parse(ROWS, table=TABLE))
    run = model.runtime.cut(model.runtime.gathers)
    with pytest.raises(gn.ModelError, match=r"^ONNX Runtime .* does not run the model: .*out of data bounds"):
        run({"i": np.array([[50, 0, 0]])})


def test_sizes_that_only_a_run_knows_give_the_error_of_the_runtime(runtime):
    """Neither the runtime nor a kernel here has the memory for a result of 2**50 bytes."""
    text = """one (int64[n] i, int64[1] size) => (float[m, 8] y) <float[50, 8] table>
        { more = Expand (i, size) y = Gather (table, more) }"""
    model = gn.load(parse(text, table=TABLE))
    inputs = {"i": np.array([1]), "size": np.array([2**40])}
    for run in (model.run, model.runtime.cut(model.runtime.gathers)):
        with pytest.raises(gn.ModelError, match=r"^(ONNX Runtime|onnx.reference) .* does not run the model: ."):
            run(inputs)
    assert model([1], [3])["y"].shape == (3, 8)


def test_kernel_here_without_memory_leaves_the_model_whole(runtime):
    model = gn.load(parse(ROWS, table=TABLE))

    def fail(*operands):
        raise MemoryError

    (found,) = model.runtime.gathers
    run = model.runtime.cut([dataclasses.replace(found, compute=fail)])
    assert np.array_equal(run({"i": np.array([[1, 2, 3]])})[0], TABLE[[[1, 2, 3]]])


def test_model_that_the_runtime_rejects_gives_its_message(onnxruntime):
    text = "one (float[n] x) => (float[n] y) { y = Nothing (x) }"
    with pytest.raises(gn.ModelError, match=r"^ONNX Runtime .* does not run the model: .*Nothing"):
        gn.load(parse(text))
