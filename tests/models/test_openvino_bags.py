"""Embedding bags in OpenVINO models: layers, reductions of gathered rows; and errors."""

import numpy as np
import pytest

import gathernest as gn

from .numpy_bags import INDICES, TABLE, WEIGHTS, of_bags, one_by_one, same


def checked(ir, inputs, wanted, check_stages):
    """Assert that every oracle gives `wanted`; `exports/data` has what OpenVINO gives for models that it wrote."""
    model = gn.load(ir.write())
    check_stages(model, inputs)
    (got,) = model.run(inputs).values()
    assert same(got, wanted)


NATURAL = INDICES % 50
OFFSETS = np.array([0, 7, 7, 30, 31])


@pytest.mark.parametrize("default", [None, -1, 4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["EmbeddingBagOffsets", "EmbeddingBagOffsetsSum"])
@pytest.mark.parametrize("element", [np.int32, np.int64])
def test_openvino_bags_by_offsets(ir, check_stages, default, weighted, kind, element):
    if weighted and default is None:
        pytest.skip("weights come behind the default index")
    code = "i32" if element is np.int32 else "i64"
    inputs = {"i": NATURAL.astype(element), "o": OFFSETS.astype(element)}
    layers = [ir.const(TABLE), ir.parameter("i", "40", code), ir.parameter("o", "5", code)]
    layers += [] if default is None else [ir.const(element(default))]
    if weighted:
        inputs["w"] = WEIGHTS
        layers.append(ir.parameter("w", "40"))
    opset, data = ("opset15", 'reduction="sum"') if kind.endswith("s") else ("opset3", "")
    ir.result(ir.layer(kind, layers, opset=opset, data=data, dims=[5, 20]))
    wanted = of_bags(TABLE, NATURAL, OFFSETS, WEIGHTS if weighted else None)
    wanted[1] = TABLE[4] if default == 4 else 0
    checked(ir, inputs, wanted, check_stages)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_openvino_bags_packed(ir, check_stages, reduction):
    i = ir.parameter("i", "8,5", "i64")
    ir.result(
        ir.layer(
            "EmbeddingBagPacked", [ir.const(TABLE), i], opset="opset15", data=f'reduction="{reduction}"', dims=[8, 20]
        )
    )
    wanted = of_bags(TABLE, NATURAL, np.arange(0, 40, 5), reduce=reduction)
    checked(ir, {"i": NATURAL.reshape(8, 5)}, wanted, check_stages)


def test_openvino_means_by_offsets(ir, check_stages):
    layers = [ir.const(TABLE), ir.parameter("i", "?", "i64"), ir.parameter("o", "?", "i64")]
    ir.result(ir.layer("EmbeddingBagOffsets", layers, opset="opset15", data='reduction="mean"', dims=[-1, 20]))
    wanted = of_bags(TABLE, NATURAL, OFFSETS, reduce="mean")
    checked(ir, {"i": NATURAL, "o": OFFSETS}, wanted, check_stages)


def test_openvino_bags_packed_and_weighted(ir, check_stages):
    i, w = ir.parameter("i", "8,5", "i32"), ir.parameter("w", "8,5")
    ir.result(ir.layer("EmbeddingBagPackedSum", [ir.const(TABLE), i, w], opset="opset3", dims=[8, 20]))
    inputs = {"i": NATURAL.reshape(8, 5).astype(np.int32), "w": WEIGHTS.reshape(8, 5)}
    checked(ir, inputs, of_bags(TABLE, NATURAL, np.arange(0, 40, 5), WEIGHTS), check_stages)


@pytest.mark.parametrize("default", [None, -1, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_openvino_segments(ir, check_stages, default, weighted):
    if weighted and default is None:
        pytest.skip("weights come behind the default index")
    segments = np.repeat([0, 2, 3, 5], [7, 20, 1, 12])
    inputs = {"i": NATURAL, "s": segments}
    layers = [ir.const(TABLE), ir.parameter("i", "40", "i64"), ir.parameter("s", "40", "i64"), ir.const(np.int64(7))]
    layers += [] if default is None else [ir.const(np.int64(default))]
    if weighted:
        inputs["w"] = WEIGHTS
        layers.append(ir.parameter("w", "40"))
    ir.result(ir.layer("EmbeddingSegmentsSum", layers, opset="opset3", dims=[7, 20]))
    starts, ends = np.array([0, 7, 7, 27, 28, 28, 40]), np.array([7, 7, 27, 28, 28, 40, 40])
    wanted = of_bags(TABLE, NATURAL, starts, WEIGHTS if weighted else None, ends=ends)
    wanted[[1, 4, 6]] = TABLE[4] if default == 4 else 0
    checked(ir, inputs, wanted, check_stages)


@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMean"])
@pytest.mark.parametrize(("opset", "outside"), [("opset1", False), ("opset7", False), ("opset8", True)])
def test_openvino_reduction_of_gathered_rows_adds_them_one_by_one(ir, check_stages, kind, opset, outside):
    indices = NATURAL.reshape(8, 5).copy()
    table = np.concatenate([TABLE, np.zeros((1, 20), np.float32)])
    if outside:
        indices[2, 3], indices[5] = 50, 50  # rows of zeros, which count in a mean
    i, axis = ir.parameter("i", "?,5", "i64"), ir.const(np.array(0))
    rows = ir.layer("Gather", [ir.const(TABLE), i, axis], opset=opset, dims=[-1, 5, 20])
    ir.result(ir.layer(kind, [rows, ir.const(np.array([1]))], data='keep_dims="true"', dims=[-1, 1, 20]))
    sums = np.stack([one_by_one(table[bag]) for bag in indices])
    wanted = sums / np.float32(5) if kind == "ReduceMean" else sums
    checked(ir, {"i": indices}, wanted[:, np.newaxis], check_stages)


@pytest.mark.parametrize(("opset", "allowed"), [("opset1", False), ("opset7", False), ("opset8", True)])
def test_openvino_reduction_of_gathered_rows_allows_the_negative_indices_of_its_gather(ir, opset, allowed):
    i, axis = ir.parameter("i", "?", "i64"), ir.const(np.array(0))
    rows = ir.layer("Gather", [ir.const(TABLE), i, axis], opset=opset, dims=[-1, 20])
    ir.result(ir.layer("ReduceSum", [rows, ir.const(np.array([0]))], name="sum", dims=[20]))
    model = gn.load(ir.write())
    if allowed:
        assert same(model(np.array([3, -1]))["y"], TABLE[3] + TABLE[49])
        return
    with pytest.raises(gn.BoundsError, match=r"node 'sum': index -1 is out of range \[0, 49\]"):
        model(np.array([3, -1]))


@pytest.mark.parametrize("table", [TABLE[:, :1], TABLE[:, 0]], ids=["a column", "scalars"])
def test_openvino_sums_of_single_elements_are_rejected(ir, table):
    """It adds them in vectors."""
    layers = [ir.const(table), ir.parameter("i", "8,5", "i64"), ir.const(np.array(0))]
    rows = ir.layer("Gather", layers, dims=[8, 5, *table.shape[1:]])
    ir.result(ir.layer("ReduceSum", [rows, ir.const(np.array([1]))], dims=[8, *table.shape[1:]]))
    with pytest.raises(gn.ModelError, match="what it gives depends on their order"):
        gn.load(ir.write())


@pytest.mark.parametrize(
    ("indices", "offsets", "error", "message"),
    [
        ([1, -1], [0], gn.BoundsError, r"index -1 is out of range \[0, 49\]"),
        ([1, 50], [0], gn.BoundsError, r"index 50 is out of range \[0, 49\] for a table of 50 rows; 1 of 2 indices"),
        ([1, 2], [0, 3], gn.ModelError, "bag 0 is from 0 to 3, and bags lie within the 2 indices"),
        ([1, 2, 3], [0, 2, 1], gn.ModelError, "bag 1 is from 2 to 1"),
        ([1, 2], [-1, 1], gn.ModelError, "bag 0 is from -1 to 1"),
    ],
)
def test_what_openvino_reads_outside_of_its_arrays_for_is_an_error(ir, indices, offsets, error, message):
    layers = [ir.const(TABLE), ir.parameter("i", "?", "i64"), ir.parameter("o", "?", "i64")]
    ir.result(ir.layer("EmbeddingBagOffsetsSum", layers, opset="opset3", name="bag", dims=[-1, 20]))
    with pytest.raises(error, match=f"node 'bag': {message}"):
        gn.load(ir.write()).run({"i": np.array(indices), "o": np.array(offsets)})


def test_openvino_segments_that_fall_are_an_error(ir):
    layers = [ir.const(TABLE), ir.parameter("i", "3", "i64"), ir.parameter("s", "3", "i64"), ir.const(np.int64(2))]
    ir.result(ir.layer("EmbeddingSegmentsSum", layers, opset="opset3", name="bag", dims=[2, 20]))
    with pytest.raises(gn.ModelError, match="node 'bag': numbers of segments must ascend, and they fall"):
        gn.load(ir.write()).run({"i": np.array([1, 2, 3]), "s": np.array([0, 1, 0])})


@pytest.mark.parametrize(
    ("kind", "made", "message"),
    [
        ("EmbeddingBagOffsets", {"data": 'reduction="max"'}, "reduction must be sum or mean, got 'max'"),
        ("EmbeddingBagOffsets", {"default": 50}, r"default_index must be one index of the table, or -1 .* got \[50\]"),
        ("EmbeddingBagOffsets", {"default": -2}, r"default_index must be one index of the table, or -1 .* got \[-2\]"),
        ("EmbeddingBagOffsets", {"indices": "4,2"}, "indices must have rank 1, got tensor<4x2xi64>"),
        ("EmbeddingBagOffsets", {"table": np.zeros((5, 2), bool)}, "a sum of bags is of int8, .* got i1"),
        (
            "EmbeddingBagOffsets",
            {"table": np.zeros((5, 2), np.int32), "data": 'reduction="mean"'},
            "a mean of bags is of float16, bfloat16, float32, float64, got i32",
        ),
        ("EmbeddingBagOffsets", {"table": np.zeros((), np.float32)}, "have a dimension or more"),
        ("EmbeddingBagOffsets", {"offsets": "4,1"}, "element types differ|differ off axis|shapes"),
        ("EmbeddingBagOffsets", {"weights": "3", "default": -1}, r"weights must have the shape of indices, \[4\], got"),
        (
            "EmbeddingBagOffsets",
            {"weights": "4", "default": -1, "data": 'reduction="mean"'},
            "weights are of sums, and floats of the type of the table",
        ),
        ("EmbeddingBagPacked", {"indices": "4"}, "indices must have rank 2, a row for each bag, got tensor<4xi64>"),
    ],
)
def test_hostile_bags_are_rejected_in_one_line(ir, kind, made, message):
    table = ir.const(made.get("table", TABLE))
    layers = [table, ir.parameter("i", made.get("indices", "4"), "i64")]
    if kind.endswith("Offsets"):
        layers.append(ir.parameter("o", made.get("offsets", "2"), "i64"))
    layers += [ir.const(np.int64(made["default"]))] if "default" in made else []
    layers += [ir.parameter("w", made["weights"])] if "weights" in made else []
    ir.result(ir.layer(kind, layers, opset="opset15", name="bag", data=made.get("data", ""), dims=[2, 20]))
    with pytest.raises(gn.ModelError, match=rf"node 'bag' \({kind}\): .*{message}") as raised:
        gn.load(ir.write())
    assert "\n" not in str(raised.value)
