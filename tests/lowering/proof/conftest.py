"""What the tests of proofs share: a gather of each kind, and a pass that edits the text of a module."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.modules.context import make_context, parse_module
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd, Gradient
from gathernest.lowering.pipeline import parse_passes
from gathernest.lowering.proof.prover import Verdict, prove_passes
from gathernest.lowering.proof.specification import specification_of

OPERATORS = {
    "gather": (Gather(2, 1), "3x4x9x6xf32", "3x7x{}"),
    "gather_nd": (GatherNd(0), "9x8x3xf32", "5x2x{}"),
    "gather_elements": (GatherElements(1), "9x8x3xf32", "9x6x3x{}"),
}


@dataclass(frozen=True)
class Edit(ModulePass):
    """A wrong pass: the text `old` of a module becomes `new`, each time or once."""

    old: str = ""
    new: str = ""

    name = "wrong-pass"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        text = str(op)
        assert self.old in text, f"{self.old!r} is not in\n{text}"
        edited = parse_module(text.replace(self.old, self.new))
        block = op.body.block
        for old in list(block.ops):
            old.detach()
        for new in list(edited.body.block.ops):
            new.detach()
            block.add_op(new)


def operator(name: str = "gather", bounds: str = "zero", index: str = "i64", *, scale: float | None = None) -> ModuleOp:
    """Return the module of one operator; with a scale, of its gradient."""
    spec, data, indices = OPERATORS[name]
    gradient = None if scale is None else Gradient(scale)
    arrays = ArraySpec.parse(data), ArraySpec.parse(indices.format(index))
    return operator_module(spec, *arrays, bounds=bounds, gradient=gradient)


@pytest.fixture(name="operator")
def _operator() -> Callable[..., ModuleOp]:
    return operator


@pytest.fixture
def prove() -> Callable[..., list[Verdict]]:
    """Prove a pipeline, and then passes of one's own."""

    def run(module: ModuleOp, pipeline: str, *own: ModulePass) -> list[Verdict]:
        return list(prove_passes(module, [*parse_passes(pipeline), *own], make_context()))

    return run


@pytest.fixture
def verdict_of() -> Callable[..., Verdict]:
    """Return what is known of a wrong pass that runs after a pipeline."""

    def run(module: ModuleOp, pipeline: str, old: str, new: str) -> Verdict:
        context, known = make_context(), specification_of(module)
        for step in parse_passes(pipeline):
            step.apply(context, module)
        (verdict,) = prove_passes(module, [Edit(old, new)], context, known)
        return verdict

    return run
