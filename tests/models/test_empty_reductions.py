"""ReduceMax and ReduceMin of no elements: what ONNX, ONNX Runtime and OpenVINO all give, and an error else."""

import numpy as np
import pytest
from onnx.helper import make_node

import gathernest as gn

AGREED = {
    "f16": (-np.inf, np.inf, np.float16),
    "i8": (-128, 127, np.int8),
    "u8": (0, 255, np.uint8),
    "i32": (-(2**31), 2**31 - 1, np.int32),
}


def reduced(make, kind, element, dims, axis=1):
    out = "x".join([*[size for number, size in enumerate(dims.split("x")) if number != axis], element])
    nodes = [make_node(kind, ["x", "axes"], ["y"], keepdims=0, name="most")]
    return make(nodes, {"x": f"{dims}x{element}"}, {"y": out}, {"axes": np.array([axis])}, opset=20)


@pytest.mark.parametrize("element", AGREED)
@pytest.mark.parametrize(("kind", "place"), [("ReduceMax", 0), ("ReduceMin", 1)])
@pytest.mark.parametrize("dims", ["3xn", "3x0"])
def test_no_elements_give_the_least_or_the_largest_number(load, make, check_stages, element, kind, place, dims):
    model, x = load(reduced(make, kind, element, dims)), np.zeros((3, 0), AGREED[element][2])
    check_stages(model, {"x": x})
    (y,) = model(x).values()
    assert y.dtype == x.dtype
    assert y.tolist() == [AGREED[element][place]] * 3


def test_no_results_of_no_elements_are_none(load, make):
    (y,) = load(reduced(make, "ReduceMax", "f32", "axb", axis=0))(np.zeros((3, 0), np.float32)).values()
    assert y.shape == (0,)
    (y,) = load(reduced(make, "ReduceMax", "f32", "axb", axis=0))(np.zeros((0, 0), np.float32)).values()
    assert y.shape == (0,)


@pytest.mark.parametrize("element", ["f32", "f64", "i64", "bool"])
def test_where_runtimes_differ_it_is_an_error(load, make, element):
    dtype = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "bool": np.bool_}[element]
    said = "there is no maximum of no elements of .*: ONNX Runtime and OpenVINO agree only on those of float16, int8"
    model = load(reduced(make, "ReduceMax", element, "3xn"))
    with pytest.raises(gn.ModelError, match=f"node 'most': {said}"):
        model(np.zeros((3, 0), dtype))
    with pytest.raises(gn.ModelError, match=said):
        load(reduced(make, "ReduceMax", element, "3x0"))
