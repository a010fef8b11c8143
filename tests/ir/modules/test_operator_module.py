"""The module that a gather begins as."""

import re

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.dialects.attributes import BoundsAttr
from gathernest.ir.errors import InvalidGatherError
from gathernest.ir.modules.context import verify_module
from gathernest.ir.modules.operator_module import gather_module, operator_module
from gathernest.ir.operator_spec import GatherElements, GatherNd
from gathernest.ir.semantics import Bounds
from gathernest.lowering.pipeline import run_pipeline

parse = ArraySpec.parse


def test_module_is_the_operator_as_its_caller_wrote_it():
    module = gather_module(
        parse("2x5xf32"), parse("2x3xui8"), axis=-1, batch_dims=-1, bounds=Bounds.ZERO, version="openvino.Gather-8"
    )
    verify_module(module)
    assert str(module) == (
        "builtin.module {\n"
        "  func.func @gather(%data: tensor<2x5xf32>, %indices: tensor<2x3xui8>) -> tensor<2x3xf32> {\n"
        "    %result = gather.gather %data, %indices axis -1 batch_dims -1 bounds zero "
        'version "openvino.Gather-8" : tensor<2x5xf32>, tensor<2x3xui8> -> tensor<2x3xf32>\n'
        "    func.return %result : tensor<2x3xf32>\n"
        "  }\n"
        "}"
    )


def test_strides_are_carried_in_bytes():
    strided = ArraySpec((4, 3), "f8", (8, 64))
    module = gather_module(strided, parse("3xi64"), out=ArraySpec((3, 3), "f8", (48, 16)))
    verify_module(module)
    assert "%data: tensor<4x3xf64> {gather.byte_strides = array<i64: 8, 64>}" in str(module)
    assert "-> (tensor<3x3xf64> {gather.byte_strides = array<i64: 48, 16>})" in str(module)


def test_constant_indices_are_no_argument():
    module = gather_module(parse("5xf32"), parse("2xui8"), constant_indices=np.array([0, 255], np.uint8))
    verify_module(module)
    assert "@gather(%data: tensor<5xf32>) -> tensor<2xf32>" in str(module)
    assert "%indices = arith.constant dense<[0, 255]> : tensor<2xui8>" in str(module)


@pytest.mark.parametrize(
    ("operator", "indices", "line"),
    [
        (GatherNd(1), "2x7x1xi64", "gather.gather_nd %data, %indices batch_dims 1 bounds error"),
        (GatherElements(-1), "2x7xi64", "gather.gather_elements %data, %indices axis -1 bounds error"),
    ],
)
def test_every_operator_has_its_operation(operator, indices, line):
    module = operator_module(operator, parse("2x5xf32"), parse(indices))
    verify_module(module)
    assert line in str(module)


@pytest.mark.parametrize("bounds", ["zero", Bounds.ZERO])
def test_bounds_may_be_a_mode_or_its_name(bounds):
    module = gather_module("5x4xf32", "3xi64", bounds=bounds)
    run_pipeline(module, "nest")
    assert "arith.cmpi ult" in str(module), "nothing checks the indices"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bounds": "zeroo"}, "bounds 'zeroo' is not a bounds mode; use one of error, zero, clip, wrap, unchecked"),
        ({"bounds": None}, "bounds None is not a bounds mode; use one of error, "),
        ({"axis": "0"}, "axis must be an int, got '0'"),
        ({"batch_dims": 0.5}, "batch_dims must be an int, got 0.5"),
        ({"indices": "3yi64"}, "'3yi64' is not an element type"),
    ],
)
def test_arguments_of_wrong_types_are_rejected(given, message):
    with pytest.raises(InvalidGatherError, match=re.escape(message)):
        gather_module(**{"data": "5x4xf32", "indices": "3xi64"} | given)


def test_bounds_attribute_of_a_wrong_type_does_not_verify():
    with pytest.raises(VerifyException, match=re.escape("gather.bounds: expected a Bounds, got 'zero'")):
        BoundsAttr("zero")


def test_attributes_that_do_not_fit_are_rejected():
    with pytest.raises(InvalidGatherError, match=r"axis 2 is out of range \[-2, 1\] for data of rank 2"):
        gather_module(parse("2x5xf32"), parse("3xi64"), axis=2)
