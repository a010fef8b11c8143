"""Models of OpenVINO: whole and cut at every gather and bag, with the bytes of OpenVINO; bad files and hostile ones."""

import ctypes
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gathernest as gn
from gathernest.interop.models.model import has_same_bytes, load

ov = pytest.importorskip("openvino", reason="models of OpenVINO need it: pip install 'gathernest[openvino]'")
op = ov.opset15

RNG = np.random.default_rng(7)
TABLE = RNG.standard_normal((50, 8)).astype(np.float32)
IDS = RNG.integers(0, 50, (4, 6))


def model_of(make, *inputs):
    """Return a model of parameters a, b, c that are like some arrays; of one or two, the first size is not known."""
    shapes = [array.shape if len(inputs) > 2 else [-1, *array.shape[1:]] for array in inputs]
    parameters = [op.parameter(shape, inputs[place].dtype, name="abc"[place]) for place, shape in enumerate(shapes)]
    for parameter in parameters:
        parameter.output(0).set_names({parameter.get_friendly_name()})
    made = make(*parameters)
    return ov.Model([op.result(node) for node in (made if isinstance(made, tuple) else (made,))], parameters, "test")


def theirs(model, inputs):
    found = ov.Core().compile_model(model, "CPU")(list(inputs))
    return [np.asarray(found[place]) for place in range(len(model.outputs))]


def const(*values, dtype=np.int64):
    return op.constant(np.array(values if len(values) > 1 else values[0], dtype))


def axis(number):
    return op.constant(np.int64(number))


PARTS = RNG.integers(-9, 59, (4, 6)).astype(np.int32)
X = RNG.standard_normal((3, 5, 4)).astype(np.float32)
OFFSETS, FLAT = np.array([0, 3, 3, 7], np.int32), RNG.integers(0, 50, 12).astype(np.int32)
SEGMENTS, WEIGHTS = np.sort(RNG.integers(0, 5, 12)).astype(np.int32), RNG.random(12, np.float32)
MODELS = {
    "gather-1": (lambda a: ov.opset1.gather(op.constant(TABLE), a, axis(0)), IDS),
    "gather-7": (lambda a: ov.opset7.gather(op.constant(TABLE), a, axis(-1)), IDS % 8),
    "gather-8": (lambda a: op.gather(op.constant(TABLE), a, axis(0)), IDS),
    "gather-8 outside": (lambda a: op.gather(op.constant(TABLE), a, axis(0)), PARTS),
    "gather-7 negative": (lambda a: ov.opset7.gather(op.constant(TABLE), a, axis(0)), PARTS),
    "beyond 32 bits": (lambda a: op.gather(op.constant(TABLE), a, axis(0)), IDS + 2**32),
    "batch_dims": (lambda a, b: op.gather(a, b, axis(1), batch_dims=1), X, RNG.integers(0, 5, (3, 2))),
    "elements": (lambda a, b: op.gather_elements(a, b, 1), X, RNG.integers(0, 5, (3, 2, 4))),
    "nd": (lambda a, b: op.gather_nd(a, b, 1), X, RNG.integers(0, 4, (3, 2, 2))),
    "nd-5": (lambda a, b: ov.opset5.gather_nd(a, b, 2), X, RNG.integers(0, 4, (3, 5, 1))),
    "half table": (lambda a: op.gather(op.convert(op.constant(TABLE.astype(np.float16)), "f32"), a, axis(0)), IDS),
    "byte table": (lambda a: op.gather(op.convert(op.constant((TABLE * 9).astype(np.int8)), "f32"), a, axis(0)), IDS),
    "of computed": (lambda a, b: op.relu(op.gather(op.add(a, a), b, axis(0))), X, np.array([2, 0])),
    "of gathered": (lambda a, b: op.gather(op.gather(op.constant(TABLE), a, axis(0)), b, axis(1)), IDS, IDS[0] % 6),
    "by gathered": (lambda a, b: op.gather(op.constant(TABLE), op.gather(a, b, axis(0)), axis(0)), IDS, IDS[0] % 4),
    "twice": (lambda a: (op.gather(op.constant(TABLE), a, axis(0)),) * 2, IDS),
    "sum of rows": (lambda a: op.reduce_sum(op.gather(op.constant(TABLE), a, axis(0)), axis(1), False), IDS),
    "mean of rows": (lambda a: op.reduce_mean(op.gather(op.constant(TABLE), a, axis(0)), axis(-2), True), IDS),
    "sum of half rows": (
        lambda a: op.reduce_sum(
            op.gather(op.convert(op.constant(TABLE.astype(np.float16)), "f32"), a, axis(0)), axis(1), False
        ),
        IDS,
    ),
    "half bags": (
        lambda a: op.embedding_bag_packed(op.convert(op.constant(TABLE.astype(np.float16)), "f32"), a, reduction="sum"),
        IDS.astype(np.int32),
    ),
    "bags": (lambda a, b: op.embedding_bag_offsets(op.constant(TABLE), a, b, reduction="sum"), FLAT, OFFSETS),
    "bags-3": (lambda a, b: ov.opset3.embedding_bag_offsets_sum(op.constant(TABLE), a, b), FLAT, OFFSETS),
    "mean of bags": (lambda a, b: op.embedding_bag_offsets(op.constant(TABLE), a, b, reduction="mean"), FLAT, OFFSETS),
    "bags from 2": (lambda a, b: ov.opset3.embedding_bag_offsets_sum(op.constant(TABLE), a, b), FLAT, OFFSETS + 2),
    "weights": (
        lambda a, b, c: op.embedding_bag_offsets(
            op.constant(TABLE), a, b, reduction="sum", default_index=const(-1, dtype=np.int32), per_sample_weights=c
        ),
        FLAT,
        OFFSETS,
        WEIGHTS,
    ),
    "default row": (
        lambda a, b: op.embedding_bag_offsets(
            op.constant(TABLE), a, b, reduction="sum", default_index=const(4, dtype=np.int32)
        ),
        FLAT,
        OFFSETS,
    ),
    "packed": (lambda a: op.embedding_bag_packed(op.constant(TABLE), a, reduction="mean"), IDS.astype(np.int32)),
    "segments": (
        lambda a, b: ov.opset3.embedding_segments_sum(op.constant(TABLE), a, b, const(6, dtype=np.int32)),
        FLAT,
        SEGMENTS,
    ),
}

# What differs from a gather here, and always stays in OpenVINO.
UNTOUCHED = {"default row", "nd-5"}


@pytest.mark.parametrize("name", MODELS)
def test_model_has_the_bytes_of_openvino_whole_and_cut(name):
    make, *inputs = MODELS[name]
    theirs_model = model_of(make, *inputs)
    wanted = theirs(theirs_model, inputs)
    model = load(theirs_model)
    named = dict(zip("abc", inputs, strict=False))
    assert model.runtime.gathers or name in UNTOUCHED
    for got in (model.runtime.run(named), model.runtime.cut([*model.runtime.gathers])(named)):
        assert len(got) == len(wanted)
        assert all(map(has_same_bytes, got, wanted))
    for _ in range(10):
        assert all(has_same_bytes(array, wanted[0]) for array in model(*inputs).values())
    shapes = model.runtime.measure(named)
    for found in model.runtime.gathers:
        assert all(len(shapes[key]) == len(found.specs[key].shape) for key in found.operands)
        assert found.predict_runtime_ns(shapes) > 0


@pytest.mark.parametrize("name", ["sum of rows", "mean of rows"])
def test_rows_that_a_reduction_alone_reads_are_not_stored(name):
    make, ids = MODELS[name]
    (found,) = load(model_of(make, ids)).runtime.gathers
    assert found.kind == f"Reduce{name[:4].strip().capitalize()}-1" and found.operator.adds
    for bag in (1, 5, 64):  # sums of floats have other bytes in another order
        many = RNG.integers(-50, 50, (33, bag))
        model = model_of(make, many)
        loaded = load(model)
        (wanted,), (found,) = theirs(model, [many]), loaded.runtime.gathers
        assert has_same_bytes(found.compute(TABLE, many), wanted)
        assert has_same_bytes(loaded.runtime.cut([found])({"a": many})[0], wanted)


def test_threads_share_a_model():
    model = load(model_of(lambda a: op.relu(op.gather(op.constant(TABLE), a, axis(0))), IDS))

    def count_wrong(seed):
        ids = np.random.default_rng(seed).integers(0, 50, (30, 6))
        wanted = np.maximum(TABLE[ids], 0).tobytes()
        return sum(model(ids)[model.outputs[0]].tobytes() != wanted for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(count_wrong, range(4))) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux is the layout of a signal stack known here")
def test_a_loaded_model_leaves_the_thread_the_stack_of_its_signal_handlers():
    """OpenVINO's own stack is freed with its model: the next signal would kill the process."""

    def stack():
        found = (ctypes.c_size_t * 3)()
        ctypes.CDLL(None).sigaltstack(None, found)
        return [found[0], found[1] & 0xFFFFFFFF, found[2]]

    before = stack()
    model = load(model_of(lambda a: op.relu(op.gather(op.constant(TABLE), a, axis(0))), IDS))
    assert model(IDS)[model.outputs[0]].tobytes() == np.maximum(TABLE[IDS], 0).tobytes()
    assert stack() == before


@pytest.fixture
def saved(tmp_path):
    """A model in files whose constants are in the `.bin`."""
    ov.save_model(model_of(lambda a: op.gather(op.constant(TABLE), a, axis(0)), IDS), tmp_path / "model.xml")
    return tmp_path / "model.xml"


def test_file_is_loaded_with_its_weights_and_keeps_them(saved):
    model = load(saved)
    for _ in range(3):
        found = model.run({"a": IDS})[model.outputs[0]]
    assert model.name == "model.xml"
    assert found.tobytes() == TABLE.astype(np.float16).astype(np.float32)[IDS].tobytes()  # save_model rounds to float16


def test_model_without_inputs_runs():
    rows = op.gather(op.constant(TABLE), const(3, 1), axis(0))
    model = load(ov.Model([op.result(op.relu(rows))], [], "none"))
    for got in (model.run({}), model()):
        assert got[model.outputs[0]].tobytes() == np.maximum(TABLE[[3, 1]], 0).tobytes()


@pytest.mark.parametrize(("sizes", "result"), [([5, 0], "[2, 0]"), ([-1, -1], "")], ids=["known", "open"])
def test_gather_without_elements_is_loaded_unless_its_sizes_are_known(sizes, result):
    a = op.parameter(sizes, np.float32, name="a")
    a.output(0).set_names({"a"})
    model = ov.Model([op.result(op.gather(op.relu(a), const(3, 1), axis(0)))], [a], "none")
    if result:
        with pytest.raises(
            gn.ModelError, match=rf"gives no elements, as the sizes of its result are {re.escape(result)}"
        ):
            load(model)
    else:
        (found,) = load(model)(np.zeros((5, 0), np.float32)).values()
        assert found.shape[1] == 0


def test_model_with_variables_runs_whole():
    a = op.parameter([50, 8], np.float32, name="a")
    variable = op.read_value(a, "state", np.float32, ov.PartialShape([50, 8]))
    sums = op.add(variable, a)
    rows = op.gather(sums, const(0, 1), axis(0))
    model = load(ov.Model([op.result(rows)], [op.assign(sums, "state")], [a], "stateful"))
    assert not model.runtime.gathers
    assert model(TABLE)[model.outputs[0]].shape == (2, 8)


def test_problem_of_a_node_can_be_compiled():
    node = op.gather(op.constant(TABLE), op.parameter([-1], np.int64, name="a"), axis(0), name="lookup")
    model = load(ov.Model([op.result(node)], [node.input_value(1).get_node()], "test"))
    assert str(model.gather("lookup").table) == "50x8xf32"
    with pytest.raises(gn.ModelError, match="has no gather 'lockup'; it has lookup; did you mean 'lookup'"):
        model.gather("lockup")


def test_bags_of_different_lengths_are_a_problem_of_equal_ones():
    make, *inputs = MODELS["bags"]
    (problem,) = load(model_of(make, *inputs)).gathers(16).values()
    assert (problem.name, str(problem.table), str(problem.indices)) == ("gather_reduce", "50x8xf32", "16x16xi32")


BAD_FILES = {
    "no xml": (lambda xml, bin: xml.write_bytes(b"\x08\x0a\x12"), "is no XML; name the .xml of an OpenVINO IR"),
    "cut off": (lambda xml, bin: xml.write_bytes(xml.read_bytes()[:200]), "does not run the model: "),
    "no weights": (lambda xml, bin: bin.unlink(), "does not run the model: "),
    "weights cut off": (lambda xml, bin: bin.write_bytes(bin.read_bytes()[:9]), "does not run the model: "),
    "entity": (
        lambda xml, bin: xml.write_text(
            '<?xml version="1.0"?><!DOCTYPE n [<!ENTITY x SYSTEM "/etc/passwd">]><n>&x;</n>'
        ),
        "does not run the model: ",
    ),
    "missing": (lambda xml, bin: xml.unlink(), "cannot be read: No such file"),
    "weights are a link": (
        lambda xml, bin: (bin.rename(bin.with_name("other")), bin.symlink_to(bin.with_name("other"))),
        "is a link, which may lead out of the folder",
    ),
    "weights have other links": (
        lambda xml, bin: os.link(bin, bin.with_name("other")),
        "has other hard links, perhaps outside of the folder",
    ),
    "weights are a folder": (lambda xml, bin: (bin.unlink(), bin.mkdir()), "is no plain file; "),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_file_is_one_error(saved, name):
    damage, message = BAD_FILES[name]
    damage(saved, saved.with_suffix(".bin"))
    with pytest.raises(gn.ModelError, match=message) as caught:
        load(saved)
    assert "root:" not in str(caught.value)


@pytest.mark.parametrize("limit", ["max_file_bytes", "max_tensor_bytes", "max_total_bytes"])
def test_limits_hold(saved, limit):
    with pytest.raises(gn.ModelError, match=f"over the limit {limit}=100; raise it"):
        load(saved, **{limit: 100})


def test_compiled_model_is_rejected():
    compiled = ov.Core().compile_model(model_of(lambda a: op.gather(op.constant(TABLE), a, axis(0)), IDS), "CPU")
    with pytest.raises(gn.ModelError, match="CompiledModel; load what it was compiled from"):
        load(compiled)


def test_inputs_that_do_not_fit_have_the_message_of_openvino():
    model = load(model_of(lambda a: op.gather(op.constant(TABLE), a, axis(0)), IDS))
    with pytest.raises(gn.ModelError, match=r"OpenVINO .* does not run the model: .*"):
        model(np.zeros((2, 2, 2), np.int64))
    with pytest.raises(gn.ModelError, match="the model has no input 'b'; it has a"):
        model.run({"b": IDS})
