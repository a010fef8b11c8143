"""Loops over sequences that torch's dynamo exporter writes for embedding bags, and damaged ones, which are rejected."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import gathernest as gn

from .dynamo_bags import check_damaged, export, graphs, loop_of, put, tensor

SUM, MEAN, MAX = "bag_sum_offsets_weighted", "bag_mean_last", "bag_max_last"


def nodes(model, kind):
    return [node for graph in graphs(loop_of(model).attribute[0].g) for node in graph.node if node.op_type == kind]


@pytest.mark.parametrize("name", [SUM, MEAN, MAX])
def test_loop_over_a_sequence_becomes_bags(name):
    text = str(gn.load(export(name)))
    assert "graph.bags" in text and "gather.gather %table" not in text


@pytest.mark.parametrize(("name", "empty"), [(SUM, 0.0), (MEAN, 0.0), (MAX, 0.0)])
def test_empty_bags_are_zeros(name, empty):
    inputs = {"tokens": np.array([1, 2, 3]), "offsets": np.array([0, 0, 3])}
    if name == SUM:
        inputs["weights"] = np.ones(3, np.float32)
    got = next(iter(gn.load(export(name)).run(inputs).values()))
    assert (got[0] == empty).all() and got[1].all()


def test_last_bag_that_ends_before_the_indices_is_that_of_the_exported_loop():
    """The loop divides by the number of indices behind the last start, and its maximum is of all of those."""
    inputs = {"tokens": np.array([1, 2, 3, 4]), "offsets": np.array([0, 1, 3])}
    table = numpy_helper.to_array(tensor(export(MEAN), "table"))
    mean, largest = (next(iter(gn.load(export(name)).run(inputs).values())) for name in (MEAN, MAX))
    assert mean[1].tobytes() == ((table[2] + table[3]) / np.float32(3)).tobytes()
    assert largest[1].tobytes() == table[2:5].max(0).tobytes()


def _swap(kind, at=0):
    def damage(model):
        node = nodes(model, kind)[at]
        node.input[0], node.input[1] = node.input[1], node.input[0]

    return damage


def _other(kind, becomes, at=0):
    return lambda model: setattr(nodes(model, kind)[at], "op_type", becomes)


def _attribute(kind, name, value, at=0):
    return lambda model: nodes(model, kind)[at].attribute.append(onnx.helper.make_attribute(name, value))


def _second(model):
    loop_of(model).attribute[0].g.node.add(op_type="Identity", input=["i"], output=["slice_index"])


def _zeros(model):
    (tensor,) = [tensor for graph in graphs(loop_of(model).attribute[0].g) for tensor in graph.initializer]
    tensor.CopyFrom(numpy_helper.from_array(np.ones((1, 8), np.float32), tensor.name))


def _few_zeros(model):
    (tensor,) = [tensor for graph in graphs(loop_of(model).attribute[0].g) for tensor in graph.initializer]
    tensor.CopyFrom(numpy_helper.from_array(np.zeros((1, 1), np.float32), tensor.name))


def _other_trips(model):
    next(node for node in model.graph.node if node.op_type == "Less").input[1] = "int64_2"


def _cycle(model):
    node = nodes(model, "ReduceSum")[0]
    node.op_type = "Identity"
    del node.input[1:]
    node.input[0] = node.output[0]


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        (SUM, _other("ReduceSum", "ReduceProd"), "computes something else"),
        (SUM, _other("Less", "LessOrEqual"), "computes something else"),
        (SUM, _other("Equal", "Less"), "computes something else"),
        (SUM, _attribute("ReduceSum", "keepdims", 0), "computes something else"),
        (SUM, _swap("Slice"), "computes something else"),
        (SUM, _cycle, "computes something else"),
        (SUM, _second, "names a value twice"),
        (SUM, _zeros, "computes something else"),
        (SUM, _few_zeros, "has other zeros"),
        (SUM, lambda model: put(model, "index_tensor", np.array(1)), "begins behind the first bag"),
        (SUM, _other_trips, "may make other iterations than bags"),
        (SUM, lambda model: put(model, "int64_2", np.array(3)), "computes something else"),
        (SUM, lambda model: put(model, "int64_0_1d", np.array([1])), "computes something else"),
        (MEAN, _swap("Div"), "computes something else"),
        (MEAN, lambda model: setattr(nodes(model, "Cast")[0].attribute[0], "i", 11), "computes something else"),
        (MEAN, lambda model: setattr(nodes(model, "Shape")[0].attribute[0], "i", 7), "ends its last bag otherwise"),
        (MAX, _other("Sub", "Add"), "has another last bag"),
        (MAX, _swap("Equal", 1), "computes something else"),
        (MAX, lambda model: put(model, "val_0", np.full(1, 2, np.float32)), "multiplies rows before their maximum"),
    ],
)
def test_damaged_loop_is_rejected_in_one_line(name, damage, message):
    check_damaged(name, damage, message)


@pytest.mark.parametrize("kind", ["trips", "output", "axis", "filled"])
def test_sequences_that_are_no_bags_stay_unsupported_operators(kind):
    model = export(SUM)
    loop, graph = loop_of(model), model.graph
    if kind == "trips":
        loop.input[0] = "num_bag"
    elif kind == "output":
        graph.output.add(name=next(name for name in loop.output if name.startswith("index"))).type.CopyFrom(
            graph.output[0].type
        )
    elif kind == "axis":
        next(node for node in graph.node if node.op_type == "ConcatFromSequence").attribute[0].i = 1
    else:
        next(node for node in graph.node if node.op_type == "SequenceEmpty").op_type = "SequenceConstruct"
    with pytest.raises(gn.ModelError, match=r"operators that are not supported: .*ConcatFromSequence"):
        gn.load(model)
