"""Views that `collapse-dims` merges are proved by their addresses, and wrong ones are refuted."""

import re
from dataclasses import dataclass

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.modules.context import make_context, parse_module
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd, Gradient
from gathernest.lowering.passes.canonicalize.canonical_form import CollapseDims
from gathernest.lowering.pipeline import parse_passes
from gathernest.lowering.proof.prover import prove_passes

BEFORE = "normalize-gather,erase-element-type,bufferize-gather"
GATHERS = {
    "ranks": (Gather(1), "2x5x3x4xf32", "6x7xi64"),
    "batches": (Gather(2, 1), "2x5x3x4xf32", "2x7xi64"),
    "wide elements": (Gather(1), "3x5x4xcomplex<f64>", "6xi64"),
    "tuples": (GatherNd(1), "2x3x5x4xf32", "2x6x2xi32"),
    "elements": (GatherElements(1), "3x5x4xcomplex<f64>", "2x7x3xi32"),
    "transposed": (Gather(0), "4x3xf32 strided<[1, 4]>", "2xi32"),
    "padded": (Gather(0), "5x3x4xf32 strided<[100, 8, 1]>", "2xi32"),
    "units": (Gather(1), "1x1x1xf32", "1x1xi64"),
    "empty": (Gather(1), "0x5x4xf32", "6xi64"),
    "scalar": (Gather(1), "3x5xf32", "i64"),
}


@dataclass(frozen=True)
class Edited(ModulePass):
    """`collapse-dims`, behind which the text of the module is edited."""

    name = "edited"

    pattern: str = ""
    into: str = ""

    def apply(self, ctx, op):
        CollapseDims().apply(ctx, op)
        text, count = re.subn(self.pattern, self.into, str(op))
        assert count
        edited = parse_module(text)
        for old in list(op.body.block.ops):
            old.detach()
        for new in list(edited.body.block.ops):
            new.detach()
            op.body.block.add_op(new)


def module_of(gather, scale: float | None = None) -> ModuleOp:
    spec, data, indices = gather
    gradient = None if scale is None else Gradient(scale)
    return operator_module(spec, ArraySpec.parse(data), ArraySpec.parse(indices), bounds="zero", gradient=gradient)


def of_open_sizes(module: ModuleOp) -> ModuleOp:
    """Return a module with `?` for each size but the length of tuples."""
    text = re.sub(r"(?<=[<x])\d+(?=x)", "?", str(module))
    return parse_module(text.replace("?xi32>", "2xi32>") if "gather_nd" in text else text)


def verdict(module: ModuleOp, last: ModulePass):
    return list(prove_passes(module, [*parse_passes(BEFORE), last], make_context()))[-1]


@pytest.mark.parametrize("scale", [None, 2.0], ids=["gather", "gradient"])
@pytest.mark.parametrize("name", GATHERS)
def test_views_are_proved(name, scale):
    if scale is not None and "complex" in GATHERS[name][1]:
        return  # elements of gradients are not erased
    assert verdict(module_of(GATHERS[name], scale), CollapseDims()).status == "proved"


@pytest.mark.parametrize("scale", [None, 2.0], ids=["gather", "gradient"])
@pytest.mark.parametrize("name", ["ranks", "batches", "tuples", "elements", "scalar"])
def test_views_of_open_sizes_are_proved_for_all_of_them(name, scale):
    if scale is not None and "complex" in GATHERS[name][1]:
        return  # elements of gradients are not erased
    module = of_open_sizes(module_of(GATHERS[name], scale))
    assert "?" in str(module)
    assert verdict(module, CollapseDims()).status == "proved"


WRONG = {
    "digits in another order": (r"indices\[0, 1\]", "indices[1, 0]", "the view of indices has another stride along"),
    "a dimension left out": (r"inner\[2, 3\]", "inner[3]", "the view of data has 12 elements along inner"),
    "a dimension twice": (r"inner\[3, 4\]", "inner[3, 3]", "a dimension of out is in no merged dimension, or in two"),
    "names swapped": (
        *(r"outer\[0\], indices\[1, 2\], inner", "indices[0], outer[1, 2], inner"),
        "the dimension outer of data belongs to indices",
    ),
    "an axis by another name": (r"axis\[1\]", "inner_1[1]", "the dimension inner_1 of data belongs to an index"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_views_are_refuted(name):
    pattern, into, reason = WRONG[name]
    found = verdict(module_of(GATHERS["ranks"]), Edited(pattern, into))
    assert found.status == "refuted"
    assert found.reason.startswith(reason)


def test_operator_that_became_another_is_left_to_samples():
    found = verdict(module_of(GATHERS["ranks"]), Edited("bounds zero", "bounds clip"))
    assert (found.status, found.reason) == ("refuted", "a sampled gather gives other bytes")
