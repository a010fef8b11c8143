"""The limit on all constants of a model together, and on what is computed from them when it is loaded."""

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

import gathernest as gn
from gathernest.ir.errors import ModelError
from gathernest.ir.modules.weights import Weights
from gathernest.lowering.passes.graph import check_constant_indices

TABLE = np.arange(24, dtype=np.float32).reshape(6, 4)


def positions(make, count):
    """Gathers by one constant of int8 whose positions need 8 bytes each, for each gather anew."""
    nodes = [make_node("Gather", ["x", "i"], [f"y{number}"], name=f"pick{number}") for number in range(count)]
    outputs = {f"y{number}": "1000xf32" for number in range(count)}
    return make(nodes, {"x": "300xf32"}, outputs, {"i": np.full(1000, -1, np.int8)})


def test_positions_of_indices_that_gathers_share_are_counted(load, make):
    message = (
        r"node 'pick7': with 'i_checked', the model's constants and what is folded from them take 65000 bytes, "
        r"over the limit max_total_bytes=60000; raise it if the model is to be trusted"
    )
    with pytest.raises(gn.ModelError, match=message):
        load(positions(make, 100), max_total_bytes=60_000)
    model = load(positions(make, 100), max_total_bytes=801_000)
    assert sum(array.nbytes for array in model.weights.values()) == 801_000


def test_gathers_after_many_new_positions_are_checked_at_run_time(load, make, monkeypatch):
    """A file of 1 MB must not become gigabytes of positions before the total limit is reached."""
    monkeypatch.setattr(check_constant_indices, "MOST_ADDED_BYTES", 20_000)
    model = load(positions(make, 10))
    assert str(model).count("bounds unchecked") == 3
    assert str(model).count("bounds error") == 7
    assert model.weights.total_bytes == 1000 + 3 * 8000
    x = np.arange(300, dtype=np.float32)
    assert all((array == 299).all() for array in model(x=x).values())


def test_default_limit_is_that_of_a_file(load, make, monkeypatch):
    assert load(positions(make, 2)).weights.max_bytes == 2**31


def test_folded_values_are_counted(load, make):
    nodes = [make_node("Cast", ["w"], [f"c{number}"], to=TensorProto.DOUBLE, name=f"n{number}") for number in range(9)]
    proto = make(nodes, {}, {f"c{number}": "6x4xf64" for number in range(9)}, {"w": TABLE})
    with pytest.raises(
        gn.ModelError, match=r"node 'n4': with 'c4', .* take 1056 bytes, over the limit max_total_bytes=1000"
    ):
        load(proto, max_total_bytes=1000)


def test_sizes_that_are_followed_are_counted(load, make):
    """The fold of small integer vectors has no limit of its own."""
    nodes = [make_node("Concat", ["i", "i"], [f"c{number}"], axis=0, name=f"n{number}") for number in range(9)]
    proto = make(nodes, {}, {f"c{number}": "1000xi64" for number in range(9)}, {"i": np.arange(500)})
    with pytest.raises(gn.ModelError, match=r"node 'n2': with 'c2', .* take 28000 bytes"):
        load(proto, max_total_bytes=25_000)


def test_views_of_a_weight_are_counted_once(load, make):
    nodes = [make_node("Reshape", ["w", "flat"], [f"c{number}"]) for number in range(9)]
    proto = make(nodes, {}, {f"c{number}": "24xf32" for number in range(9)}, {"w": TABLE, "flat": np.array([-1])})
    assert load(proto, max_total_bytes=96).weights.total_bytes == 96


def test_part_of_a_file_that_many_weights_read_is_counted_for_each(load, make, tmp_path):
    (tmp_path / "w.bin").write_bytes(TABLE.tobytes())
    names = [f"w{number}" for number in range(20)]
    proto = make([make_node("Concat", names, ["y"], axis=0)], {}, {"y": "120x4xf32"}, dict.fromkeys(names, TABLE))
    for tensor in proto.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
    with pytest.raises(gn.ModelError, match=r"with 'w10', .* take 1056 bytes, over the limit max_total_bytes=1000"):
        load(proto, allow_external_data=True, max_total_bytes=1000)


def test_constants_of_an_ir_that_read_the_same_bytes_are_counted(tmp_path):
    consts = "".join(
        f'<layer id="{number}" name="c{number}" type="Const" version="opset1"><data element_type="f32" shape="6,4" '
        f'offset="0" size="96"/><output><port id="0"><dim>6</dim><dim>4</dim></port></output></layer>'
        for number in range(20)
    )
    path = tmp_path / "model.xml"
    path.write_text(f'<net version="11"><layers>{consts}</layers><edges/></net>')
    path.with_suffix(".bin").write_bytes(TABLE.tobytes())
    with pytest.raises(gn.ModelError, match=r"node 'c10' \(Const\): with 'c10', .* take 1056 bytes"):
        gn.load(path, max_total_bytes=1000)


def test_strings_are_counted_with_their_text():
    weights = Weights(1000)
    with pytest.raises(ModelError, match="with 'names', the model's constants"):
        weights.add("names", np.array(["a" * 2000], object))
