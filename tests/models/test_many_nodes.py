"""Models of many nodes: a load does each thing once a node, and prints and verifies nothing."""

import gc
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_node
from xdsl.ir import Operation
from xdsl.printer import Printer

import gathernest as gn
from gathernest.ir.errors import InternalError
from gathernest.lowering.passes.graph.compose_gathers import ComposeGathers


def chain(count):
    """Gather, unsqueeze, squeeze and concat, one after the other, with a shared vector of axes."""
    kinds = ["Gather", "Unsqueeze", "Squeeze", "Concat"]
    operands = {"Gather": ["i"], "Unsqueeze": ["zero"], "Squeeze": ["zero"], "Concat": []}
    nodes = []
    for number in range(count):
        kind = kinds[number % 4]
        attributes = {"axis": 0} if kind in ("Gather", "Concat") else {}
        nodes.append(make_node(kind, [f"v{number}", *operands[kind]], [f"v{number + 1}"], **attributes))
    return nodes, {"v0": "6x4xf32", "i": "2xi64"}, {f"v{count}": "2x4xf32"}, {"zero": np.array([0])}


def fan(count):
    """Gathers of one input by one constant that has to be made positions, with as many outputs."""
    nodes = [make_node("Gather", ["x", "i"], [f"y{number}"]) for number in range(count)]
    return nodes, {"x": "6x4xf32"}, {f"y{number}": "70x4xf32" for number in range(count)}, {"i": np.array([-1, 0] * 35)}


def sizes(count):
    """Reshapes to sizes that are gathered from shapes."""
    nodes = []
    for number in range(count):
        value = f"x{number}"
        nodes.append(make_node("Shape", [value], [f"s{number}"]))
        nodes.append(make_node("Gather", [f"s{number}", "flip"], [f"t{number}"]))
        nodes.append(make_node("Reshape", [value, f"t{number}"], [f"x{number + 1}"]))
    return nodes, {"x0": "6x4xf32"}, {f"x{count}": "?x?xf32"}, {"flip": np.array([1, 0])}


def picked_twice(count):
    """Gathers of a gather that have one user each, all by constants."""
    nodes = [make_node("Gather", [f"v{number}", "i"], [f"v{number + 1}"]) for number in range(count)]
    return nodes, {"v0": "6x4xf32"}, {f"v{count}": "?x4xf32"}, {"i": np.array([2, 0, 1])}


def constants_and_shapes(count):
    """Constants of their own and shape operators, all of which are folded."""
    nodes = []
    for number in range(0, count, 8):
        a, s, i, g, c, u, z = (f"{letter}{number}" for letter in "asigcuz")
        nodes += [
            make_node("Constant", [], [a], value_ints=[number, 7, 3]),
            make_node("Shape", ["x"], [s]),
            make_node("Constant", [], [i], value_ints=[1]),
            make_node("Gather", [s, i], [g]),
            make_node("Concat", [a, g], [c], axis=0),
            make_node("Unsqueeze", [c, "zero"], [u]),
            make_node("Squeeze", [u, "zero"], [z]),
            make_node("Cast", [z], [f"y{number}"], to=6),
        ]
    return nodes, {"x": "6x4xf32"}, {nodes[-1].output[0]: "4xi32"}, {"zero": np.array([0])}


def weights_of_one_name(count):
    """Weights whose names differ only in what is derived from them."""
    nodes = [make_node("Cast", ["w"], [f"{'w' * (number % 3 + 1)} {number}"], to=11) for number in range(count)]
    outputs = {node.output[0]: "100xf64" for node in nodes}
    return nodes, {}, outputs, {"w": np.zeros(100, np.float32)}


def steps_of(call: Callable[[], object]) -> int:
    """Return how many instructions of Python a call takes in code of the package."""
    count, ours = 0, str(Path(gn.__file__).parent)

    def local(frame, event, argument):
        nonlocal count
        count += event == "opcode"
        return local

    def entered(frame, event, argument):
        if not frame.f_code.co_filename.startswith(ours) or "site-packages" in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return local

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.draw(1)
@pytest.mark.parametrize("kind", [chain, fan, sizes, constants_and_shapes, picked_twice, weights_of_one_name])
def test_work_of_a_load_grows_with_the_nodes(load, make, kind):
    steps = []
    for count in (4, 60, 260, 460):  # the first fills caches
        proto = make(*kind(count))
        load.write(proto)
        steps.append(steps_of(lambda: gn.load(load.folder / "model.onnx")))
    assert steps[3] - steps[2] <= 1.05 * (steps[2] - steps[1])


@pytest.mark.thorough
def test_constants_and_shapes_are_folded_in_few_steps(load, make):
    """A node takes 1263 instructions (CPython 3.11), and 1604 where the fold asks anew what the importer knew."""
    proto, model = make(*constants_and_shapes(2000)), []
    load.write(proto)
    gn.load(load.folder / "model.onnx")  # fills caches
    assert steps_of(lambda: model.append(gn.load(load.folder / "model.onnx"))) < 1450 * 2000
    assert model[0].stages["fold-graph-constants"].count("arith.constant") <= 2 * 250 + 2
    assert model[0].run({"x": np.zeros((6, 4), np.float32)})["y1992"].tolist() == [1992, 7, 3, 4]


def openvino_chain(folder, count):
    """Write an OpenVINO IR of so many gathers, each of the one before it by an input."""
    x, i = "<dim>6</dim><dim>4</dim>", "<dim>6</dim>"
    layers = [
        f'<layer id="0" name="x" type="Parameter"><data shape="6,4" element_type="f32"/><output><port id="0">{x}</port>'
        '</output></layer><layer id="1" name="i" type="Parameter"><data shape="6" element_type="i64"/><output>'
        f'<port id="0">{i}</port></output></layer><layer id="2" name="axis" type="Const"><data element_type="i64" '
        'shape="" offset="0" size="8"/><output><port id="0"/></output></layer>'
    ]
    edges = []
    for number in range(3, count + 3):
        layers.append(
            f'<layer id="{number}" name="g{number}" type="Gather" version="opset8"><data batch_dims="0"/><input>'
            f'<port id="0">{x}</port><port id="1">{i}</port><port id="2"/></input><output><port id="3">{x}</port>'
            "</output></layer>"
        )
        sources = [(number - 1, 3) if number > 3 else (0, 0), (1, 0), (2, 0)]
        edges += [
            f'<edge from-layer="{source}" from-port="{port}" to-layer="{number}" to-port="{place}"/>'
            for place, (source, port) in enumerate(sources)
        ]
    layers.append(f'<layer id="{count + 3}" name="y" type="Result"><input><port id="0">{x}</port></input></layer>')
    edges.append(f'<edge from-layer="{count + 2}" from-port="3" to-layer="{count + 3}" to-port="0"/>')
    path = folder / "model.xml"
    path.with_suffix(".bin").write_bytes(bytes(8))
    path.write_text(f'<net version="11"><layers>{"".join(layers)}</layers><edges>{"".join(edges)}</edges></net>')
    return path


def test_openvino_layer_takes_few_steps_however_many_there_are(tmp_path):
    """A layer takes 3518 instructions (CPython 3.11); what expat and xDSL do is not among them."""
    steps = []
    for count in (4, 40, 140, 240):  # the first fills caches
        path = openvino_chain(tmp_path, count)
        steps.append(steps_of(lambda path=path: gn.load(path)))
    assert steps[3] - steps[2] <= 1.05 * (steps[2] - steps[1])
    assert steps[3] - steps[2] < 3700 * 100


@pytest.mark.parametrize("kind", [chain, fan])
def test_work_of_a_run_grows_with_the_nodes(load, make, kind):
    steps = []
    inputs = (
        {"v0": np.zeros((6, 4), np.float32), "i": np.array([0, 1])} if kind is chain else {"x": np.zeros((6, 4), "f4")}
    )
    for count in (4, 60, 260, 460):
        model = load(make(*kind(count)))
        model.run(inputs)
        steps.append(steps_of(lambda model=model: model.run(inputs)))
    assert steps[3] - steps[2] <= 1.05 * (steps[2] - steps[1])


def test_load_prints_nothing_and_verifies_no_operation(load, make, monkeypatch):
    calls = []
    monkeypatch.setattr(Printer, "print_op", lambda *_: calls.append("print"))
    monkeypatch.setattr(Operation, "verify", lambda *_, **__: calls.append("verify"))
    model = load(make(*chain(40)))
    assert calls == []
    monkeypatch.undo()
    assert list(model.stages) == ["operator", *model.pipeline.split(",")]


def test_stages_are_those_of_the_model_as_it_was_read(load, make):
    model = load(make(*fan(3)))
    assert model.stages["operator"].count("bounds error") == 3
    assert model.stages["dce"].count("bounds unchecked") == 3
    assert str(model) == model.stages["dce"]
    for name in model.weights:
        assert name in model.stages["check-constant-indices"]


def test_pass_that_fails_is_named_at_load(load, make, monkeypatch):
    def fails(*_):
        raise RuntimeError("boom")

    monkeypatch.setattr(ComposeGathers, "apply", fails)
    with pytest.raises(InternalError, match=r"compose-gathers failed: RuntimeError: boom; please report it with"):
        load(make(*chain(4)))


def test_garbage_is_collected_while_models_are_loaded(make):
    model, collected, thresholds = make(*chain(40)), [], gc.get_threshold()
    gc.callbacks.append(lambda phase, _: collected.append(phase))
    gc.set_threshold(100)
    try:
        gn.load(model)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.pop()
    assert len(collected) > 10  # while it grows, not once at the end
