"""Embedding bags with a padding index, as torch's dynamo exporter writes them, and damaged ones, which are rejected."""

import numpy as np
import onnx
import pytest

import gathernest as gn

from .dynamo_bags import check_damaged, export, graphs, loop_of, put

SUM, MEAN, MAX = "bag_sum_last_padded_weighted", "bag_mean_offsets_padded", "bag_max_rows_padded"
PADDING, ROWS = 3, 20
NAN_ROW = np.where(np.arange(ROWS)[:, None] == PADDING, np.float32(np.nan), 0)


def node(graph, kind, at=0):
    """Return a node of a graph, or of the graphs in it."""
    return [node for part in graphs(graph) for node in part.node if node.op_type == kind][at]


def outer(model):
    return loop_of(model).attribute[0].g


def inner(model):
    return next(node for node in outer(model).node if node.op_type == "Loop").attribute[0].g


def run(model, **inputs):
    return next(iter(gn.load(model).run({name: np.asarray(value) for name, value in inputs.items()}).values()))


def with_table(name, table):
    model = export(name)
    put(model, "table", table)
    return model


def random_table():
    return np.random.default_rng(0).standard_normal((ROWS, 8)).astype(np.float32)


@pytest.mark.parametrize("name", [SUM, MEAN, MAX])
def test_loops_in_each_other_become_bags(name):
    text = str(gn.load(export(name)))
    assert "graph.bags" in text and "graph.count_less" in text and "gather.gather %table" not in text


@pytest.mark.parametrize("padding", [PADDING, PADDING - ROWS])
def test_padding_is_left_out_of_a_mean_from_either_end_of_the_table(padding):
    table = random_table()
    got = run(with_table(MEAN, table + NAN_ROW), tokens=[1, padding, 2, padding, 7], offsets=[0, 3])
    assert got.tobytes() == np.stack([(table[1] + table[2]) / np.float32(2), table[7]]).tobytes()


def test_padding_is_left_out_of_a_maximum():
    table = random_table()
    got = run(with_table(MAX, table + NAN_ROW), tokens=[[1, PADDING, -2], [PADDING, 0, PADDING]])
    assert got.tobytes() == np.stack([np.maximum(table[1], table[-2]), table[0]]).tobytes()


def test_weights_of_padding_are_left_out_and_the_last_offset_is_replaced():
    table, weights = random_table(), np.array([2, np.nan, 3, 5], np.float32)
    got = run(with_table(SUM, table), tokens=[1, PADDING, 2, 4], offsets=[0, 2, 99], weights=weights)
    assert got.tobytes() == np.stack([table[1] * 2, table[2] * 3 + table[4] * 5]).astype(np.float32).tobytes()


@pytest.mark.parametrize("name", [SUM, MEAN, MAX])
def test_bags_of_padding_alone_are_zeros(name):
    shape = (2, 2) if name == MAX else (4,)
    inputs = {"tokens": np.full(shape, PADDING)}
    inputs |= {} if name == MAX else {"offsets": np.array([0, 1, 4])}
    inputs |= {"weights": np.ones(4, np.float32)} if name == SUM else {}
    assert not any(run(with_table(name, random_table() + NAN_ROW), **inputs).tobytes())


def test_bags_that_end_where_they_start_or_before_are_zeros_wherever_that_is():
    table = random_table()
    got = run(with_table(MEAN, table), tokens=[1, 2], offsets=[9, 1, 1, 0])
    assert got.tobytes() == np.stack([*np.zeros((3, 8), np.float32), (table[1] + table[2]) / np.float32(2)]).tobytes()


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([-1, 2], "bag 0 is from -1 to 2, and bags lie within the 3 indices, in order"),
        ([0, 9], "bag 0 is from 0 to 9, and bags lie within the 3 indices, in order"),
    ],
)
def test_bag_outside_of_the_indices_is_an_error(offsets, message):
    with pytest.raises(gn.ModelError, match=message):
        run(export(MEAN), tokens=[1, 2, PADDING, 4], offsets=offsets)


def test_index_that_would_be_padding_one_table_further_is_out_of_range():
    with pytest.raises(gn.BoundsError, match=rf"index {PADDING - 2 * ROWS} is out of range \[-20, 19\]"):
        run(export(MAX), tokens=[[1, PADDING - 2 * ROWS]])


def _other(kind, becomes, at=0):
    return lambda model: setattr(node(inner(model), kind, at), "op_type", becomes)


def _input(kind, place, name, at=0):
    return lambda model: node(inner(model), kind, at).input.__setitem__(place, name)


def _loop_input(place, name):
    return lambda model: node(outer(model), "Loop").input.__setitem__(place, name)


def _swap_branches(model):
    kept = node(inner(model), "If", 1)
    for attribute in kept.attribute:
        attribute.name = {"then_branch": "else_branch", "else_branch": "then_branch"}[attribute.name]


def _filled(model):
    put(model, "curr_offsets", np.zeros(1, np.int64))


def _third_value(model):
    body = inner(model)
    body.input.add(name="third")


def _name_twice(model):
    inner(model).node.add(op_type="Identity", input=["j"], output=["start_pos"])


def _name_of_a_place(model):
    node(inner(model), "Reshape").output[0] = "j"


def _scatter(name, value):
    def damage(model):
        scatter = next(node for node in model.graph.node if node.op_type == "ScatterElements")
        scatter.attribute.append(onnx.helper.make_attribute(name, value))

    return damage


def _scatter_first(model):
    scatter = next(node for node in model.graph.node if node.op_type == "ScatterElements")
    scatter.input[1] = "int64_0_1d"


def _other_indices(model):
    model.graph.node.insert(0, onnx.helper.make_node("Neg", ["tokens"], ["negative"]))
    node(inner(model), "Gather").input[0] = "negative"


ELSE, PLACES, PADDINGS = (
    "computes something else",
    "keeps other places of indices",
    "has a padding index that is no row of the table",
)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        (SUM, lambda model: setattr(node(outer(model), "ReduceSum"), "op_type", "ReduceProd"), ELSE),
        (SUM, lambda model: setattr(node(outer(model), "Size"), "op_type", "Shape"), ELSE),
        (
            MEAN,
            lambda model: node(outer(model), "Gather", -1).attribute.append(onnx.helper.make_attribute("axis", 1)),
            ELSE,
        ),
        (SUM, _other("Less", "LessOrEqual", 0), PLACES),
        (SUM, _other("Less", "LessOrEqual", 1), PLACES),
        (SUM, _other("Not", "Identity"), PLACES),
        (SUM, _other("Equal", "Less"), PLACES),
        (SUM, _other("Concat", "Sum"), PLACES),
        (SUM, lambda model: setattr(node(inner(model), "Concat").attribute[0], "i", 1), PLACES),
        (SUM, _input("Concat", 1, "curr_offsets_22"), PLACES),
        (SUM, _input("Reshape", 0, "i_16"), PLACES),
        (SUM, _input("Gather", 1, "i_16"), PLACES),
        (SUM, _input("Identity", 0, "padding_idx_4"), PLACES),
        (SUM, _input("Add", 1, "j"), PLACES),
        (SUM, _input("Less", 1, "start_pos", 1), PLACES),
        (SUM, _swap_branches, PLACES),
        (SUM, lambda model: setattr(inner(model).output[2], "name", "j"), PLACES),
        (SUM, _filled, PLACES),
        (SUM, _loop_input(0, "num_bag"), PLACES),
        (SUM, _loop_input(1, "cond_1_15"), PLACES),
        (SUM, _loop_input(2, "indices"), PLACES),
        (SUM, _loop_input(3, "end_pos"), PLACES),
        (SUM, _third_value, "carries other values than a sequence and a number"),
        (SUM, _name_twice, "names a value twice"),
        (SUM, _name_of_a_place, "names a value twice"),
        (SUM, _other_indices, "has the padding of other indices"),
        (SUM, lambda model: put(model, "padding_idx_4", np.array(ROWS)), PADDINGS),
        (SUM, lambda model: put(model, "padding_idx_4", np.array(-1)), PADDINGS),
        (SUM, lambda model: put(model, "num_embeddings_scalar", np.array(ROWS + 1)), PADDINGS),
        (SUM, _scatter("reduction", "add"), "replaces other offsets than the last one"),
        (SUM, _scatter("axis", 1), "replaces other offsets than the last one"),
        (SUM, _scatter_first, "replaces other offsets than the last one"),
        (MAX, lambda model: put(model, "val_10", np.full(1, 2, np.float32)), "multiplies rows before their maximum"),
    ],
)
def test_damaged_loop_is_rejected_in_one_line(name, damage, message):
    check_damaged(name, damage, message)


def test_scatter_that_another_node_reads_stays_an_unsupported_operator():
    model = export(SUM)
    scatter = next(node for node in model.graph.node if node.op_type == "ScatterElements")
    model.graph.node.append(onnx.helper.make_node("Identity", [scatter.output[0]], ["more"]))
    with pytest.raises(gn.ModelError, match=r"operators that are not supported: ScatterElements"):
        gn.load(model)
