"""Names that a model may give its nodes and values: each loads, runs, prints, parses back and stands in messages."""

import numpy as np
import pytest
from onnx.helper import make_node

import gathernest as gn
from gathernest.ir.modules.context import parse_module
from gathernest.lowering.pipeline import run_pipeline

TABLE = np.arange(24, dtype=np.float32).reshape(6, 4)
NAMES = [
    "13",
    "_13",
    "#2",
    "0",
    "_",
    "1.5",
    "-1",
    "a_1",
    "a_1_2",
    "_a_",
    "%x",
    'q"uote',
    "new\nline",
    "\\",
    "a\0b",
    "ünïcode",
    "日本",
]
NAMES += ["tensor", "true", "/layer/Gather_1", "{}"]


def picks(value, node=""):
    return make_node("Gather", ["x", "i"], [value], name=node)


def loaded(load, make, values, nodes):
    """Load a model of values and nodes of those names, each a gather of its own, and hold it against the oracles."""
    steps = [picks(value, node) for value, node in zip(values, nodes, strict=True)]
    proto = make(
        [*steps, make_node("Concat", values, ["all"], axis=0)], {"x": "6x4xf32", "i": "Nxi64"}, {"all": "?x4xf32"}
    )
    return load.checked(proto, {"x": TABLE, "i": np.array([1, -6])})


@pytest.mark.parametrize("name", NAMES)
def test_name_of_any_kind_prints_and_parses_back(load, make, name):
    model = loaded(load, make, [name, f"{name}_1", f"_{name}", f"{name}_1_1"], [name] * 4)
    with pytest.raises(gn.BoundsError) as raised:
        model(x=TABLE, i=np.array([6]))
    assert str(raised.value).startswith(f"node {name!r}: index 6 at position (0,)")


def test_names_that_differ_in_what_no_identifier_has_stay_apart(load, make):
    values = [*NAMES, "13_1", "_13_1", "_13_2", "a", "a_2", "a b", "a#b", "__", "___"]
    loaded(load, make, values, [""] * len(values))


def test_weights_of_such_names_print_and_parse_back(load, make):
    proto = make([make_node("Concat", NAMES, ["all"], axis=0)], {}, {"all": "?x4xf32"}, dict.fromkeys(NAMES, TABLE))
    load.checked(proto, {})


def test_inputs_and_outputs_keep_their_names(load, make):
    gathers = [make_node("Gather", [name, "i"], [f"{name} out"]) for name in NAMES]
    inputs, outputs = dict.fromkeys(NAMES, "6x4xf32"), {f"{name} out": "2x4xf32" for name in NAMES}
    model = load.checked(
        make(gathers, {"i": "2xi64"} | inputs, outputs), {"i": np.array([0, 5])} | dict.fromkeys(NAMES, TABLE)
    )
    assert (list(model.inputs), list(model.outputs)) == (["i", *inputs], list(outputs))


def test_node_without_a_name_is_called_by_its_output_or_its_number(load, make):
    for output, called in (("y", "y"), ("", "#0")):
        with pytest.raises(gn.ModelError) as raised:
            load(make([make_node("Relu", ["x"], [output])], {"x": "2xf32"}, {"y": "2xf32"}))
        assert f"Relu (1 node {called!r})" in str(raised.value)


@pytest.mark.parametrize("name", ["13", "ünïcode", 'q"uote'])
def test_pass_on_text_names_the_node(load, make, name):
    proto = make([picks("y", name)], {"x": "6x4xf32"}, {"y": "2x4xf32"}, {"i": np.array([0, 5])})
    text = load(proto).stages["operator"].replace("[0, 5]", "[0, 6]")
    with pytest.raises(gn.BoundsError) as raised:
        run_pipeline(parse_module(text), "check-constant-indices")
    assert str(raised.value).startswith(f"node {name!r}: index 6 at")


def test_long_name_is_not_printed_at_each_use(load, make):
    name = "v" * 10**5
    proto = make([make_node("Concat", [name] * 50, ["y"], axis=0)], {name: "2xf32"}, {"y": "100xf32"})
    text = load(proto).stages["operator"]
    assert text.count(name) == 1  # as the name of the input
    assert str(parse_module(text)) + "\n" == text
