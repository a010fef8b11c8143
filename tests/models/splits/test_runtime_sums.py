"""Sums of looked-up rows in the order of a runtime, by bytes: of those made here, and of ONNX Runtime where it is."""

import importlib.util

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.splitting import runtime_sums
from gathernest.kernels.splitting.runtime_sums import RuntimeSum

random = np.random.default_rng(0)
# (bags..., bag), columns.
SHAPES = [((9, 4), 8), ((9, 1), 8), ((9, 2), 8), ((9, 3), 5), ((9, 7), 5), ((3, 5, 22), 16), ((1, 9), 4), ((9, 33), 1)]


def in_fours(rows):
    total = np.zeros_like(rows[:, 0])
    bag = rows.shape[1]
    for start in range(0, bag - 3, 4):
        first, second, third, fourth = np.moveaxis(rows[:, start : start + 4], 1, 0)
        total = (((first + second) + third) + fourth) + total
    if bag % 4 >= 2:
        total = (rows[:, bag - bag % 4] + rows[:, bag - bag % 4 + 1]) + total
    return rows[:, -1] + total if bag % 2 else total


def one_by_one(rows):
    total = np.zeros_like(rows[:, 0])
    for row in np.moveaxis(rows, 1, 0):
        total = total + row
    return total


def from_the_first(rows):
    """Differs from `one_by_one` in sums of -0.0 alone."""
    total = rows[:, 0].copy()
    for row in np.moveaxis(rows[:, 1:], 1, 0):
        total = total + row
    return total


def backwards(rows):
    return one_by_one(rows[:, ::-1])


@pytest.fixture(autouse=True)
def _serial():
    """Run every sum under the empty schedule: one kernel serves rows of all lengths; the order is the same in all."""
    with gn.knobs.scope(schedule=""):
        yield


def use(monkeypatch, order):
    """Let the runtime add in an order; return the list of the shapes of rows that it gets."""
    shapes = []

    class Session:
        def __init__(self, model, is_part):
            self.divides = model.graph.node[0].op_type == "ReduceMean"

        def run(self, inputs):
            rows = inputs["rows"]
            shapes.append(rows.shape)
            sums = order(rows)
            return {"sums": sums / rows.dtype.type(rows.shape[1]) if self.divides else sums}

    monkeypatch.setattr(runtime_sums, "RuntimeSession", Session)
    return shapes


def arrays(shape, columns, dtype):
    table = random.standard_normal((500, columns)).astype(dtype)
    table[:40, 0] = -0.0
    return table, random.integers(-500, 500, shape), random.standard_normal(shape).astype(dtype)


def reduced(session, table, indices, weights=None, left_out=None):
    rows = table[indices].reshape(-1, indices.shape[-1], table.shape[1])
    if left_out is not None:
        rows[left_out.reshape(rows.shape[:2])] = 0
    if weights is not None:
        rows = rows * weights.reshape(*rows.shape[:2], 1)
    return session.run({"rows": rows})["sums"].tobytes()


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("order", [in_fours, one_by_one, from_the_first, backwards])
def test_sums_have_the_bytes_of_the_runtime_in_whatever_order_it_adds(order, reduce, dtype, monkeypatch):
    shapes = use(monkeypatch, order)
    ours = RuntimeSum(reduce, np.dtype(dtype))
    for shape, columns in SHAPES:
        table, indices, weights = arrays(shape, columns, dtype)
        for given in ({}, {"weights": weights}, {"left_out": weights > 0.5}):
            wanted = reduced(ours._session, table, indices, **given)
            for out in (None, np.full((*shape[:-1], 1, columns), 7, dtype)):
                shapes.clear()
                found = ours.run(table, indices, out, **given)
                assert found.tobytes() == wanted and found.shape == (
                    (*shape[:-1], columns) if out is None else out.shape
                )
            # What it adds in an order that is known is added here; a sum of one or two rows has no other order.
            is_there = (np.prod(shape[:-1]), shape[-1], columns) in shapes
            assert is_there == (order is from_the_first or (order is backwards and shape[-1] > 2))


def test_an_order_is_tried_once_for_a_size_of_bags_and_many_bags_alike(monkeypatch):
    shapes = use(monkeypatch, in_fours)
    monkeypatch.setattr(runtime_sums, "usable_cores", lambda: 2)
    ours = RuntimeSum("sum", np.dtype(np.float32))
    table, indices, _ = arrays((200, 6), 64, np.float32)
    for bags in (200, 100, 200):
        ours.run(table, indices[:bags])
    assert {*shapes} == {(8, 6, 64)}
    tried = len(shapes)
    ours.run(table, indices[:7])
    assert {*shapes[tried:]} == {(7, 6, 64)}


def test_few_sums_are_tried_on_several_rows(monkeypatch):
    use(monkeypatch, backwards)
    ours = RuntimeSum("sum", np.dtype(np.float32))
    for _ in range(50):
        table, indices, _ = arrays((1, 3), 1, np.float32)
        assert ours.run(table, indices).tobytes() == reduced(ours._session, table, indices)
    assert ours._groups == {(1, 3, 1): None}


def test_sums_in_order_need_no_trial_and_empty_bags_are_the_runtimes(monkeypatch):
    shapes = use(monkeypatch, in_fours)
    ours = RuntimeSum("mean", np.dtype(np.float32), in_order=True)
    table, indices, _ = arrays((9, 7), 4, np.float32)
    wanted = one_by_one(table[indices]) / np.float32(7)
    assert ours.run(table, indices).tobytes() == wanted.tobytes() and shapes == []
    monkeypatch.setattr(ours._session, "run", lambda inputs: {"sums": np.ones((9, 4), np.float32)})
    assert (ours.run(table, indices[:, :0]) == 1).all()


def test_index_outside_leaves_out_untouched_and_no_dimension_is_an_error(monkeypatch):
    use(monkeypatch, in_fours)
    ours = RuntimeSum("sum", np.dtype(np.float32))
    table, indices, _ = arrays((9, 7), 4, np.float32)
    indices[8, 6] = 500
    out = np.full((9, 4), 7, np.float32)
    for left_out in (None, np.ones((9, 7), bool)):
        with pytest.raises(gn.BoundsError, match="index 500"):
            ours.run(table, indices, out, left_out=left_out)
    assert (out == 7).all()
    with pytest.raises(gn.ModelError, match=r"^one index has no dimension to reduce; the model may be damaged$"):
        ours.run(table, np.array(3))


@pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="ONNX Runtime is not installed")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_sums_have_the_bytes_of_onnx_runtime(reduce, dtype):
    ours = RuntimeSum(reduce, np.dtype(dtype))
    for shape, columns in [*SHAPES, ((64, 64), 96), ((2, 130), 33)]:
        table, indices, weights = arrays(shape, columns, dtype)
        for given in ({}, {"weights": weights}, {"left_out": weights > 0.5}):
            wanted = reduced(ours._session, table, indices, **given)
            assert ours.run(table, indices, **given).tobytes() == wanted
