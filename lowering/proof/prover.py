"""Prove a pipeline: each pass by itself, for all sizes, against the definition of the operator."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument
from xdsl.passes import ModulePass

from ...ir.dialects.attributes import SCALE
from ...ir.dialects.gather_dialect import OperatorOp
from ...ir.modules.context import verify_module
from ..nest.queries import functions
from .conditions import Conditions, Failure
from .examples import Example, make_example, run_samples
from .specification import Specification, define, specification_of
from .sums import SumConditions
from .values import Refuted, Undecided
from .views import check_views
from .walk import meaning_of


class Status(StrEnum):
    """The result of a proof."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNDECIDED = "undecided"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Verdict:
    """The result for one pass of a pipeline."""

    name: str  # the pass with its options
    status: Status
    reason: str = ""  # the violated condition, or the reason why it is not decided
    samples: int = 0  # the number of gathers that were interpreted instead of a proof; 0 where it was decided
    example: Example | None = None  # a small gather on which it goes wrong

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        samples = f"; {self.samples} gathers of other sizes give the right bytes" if self.samples else ""
        example = [] if self.example is None else [f"  {line}" for line in str(self.example).split("\n")]
        return "\n".join([f"{self.name}: {self.status}{reason}{samples}", *example])


def prove_passes(
    module: ModuleOp, passes: Sequence[ModulePass], context: Context, known: Specification | None = None
) -> Iterator[Verdict]:
    """Run passes on a module in place and yield a verdict on each.

    The stage after a pass is compared with the definition of the operator, from `known` or from the first stage that
    has the operator or a `gather.resolve`. So a fault of one pass stays refuted after the passes behind it.

    Raises:
        GathernestError: a pass rejects the module.
    """
    start, found = module.clone(), specification_of(module)
    known = known or found
    if known is not None and found is not None and known.constants is None:
        known = replace(known, constants=found.constants)
    for number, step in enumerate(passes):
        before = module.clone()
        step.apply(context, module)
        verify_module(module)
        known = known or specification_of(module)
        name = str(step).replace('"', "")
        if before.is_structurally_equivalent(module):
            yield Verdict(name, Status.UNCHANGED)
            continue
        try:
            yield _verdict(name, before, module, known)
        except Undecided as undecided:
            count, wrong = run_samples(start, passes[: number + 1], context)
            if wrong is None:
                yield Verdict(name, Status.UNDECIDED, str(undecided), count)
            else:
                yield Verdict(name, Status.REFUTED, "a sampled gather gives other bytes", 0, wrong)


def refuted_input(module: ModuleOp, known: Specification) -> Verdict | None:
    """Return the verdict on a stage that is refuted before any pass; None where it is right, undecided, or no nest."""
    try:
        verdict = _verdict("the input", module, module, known)
    except Undecided:
        return None
    return verdict if verdict.status is Status.REFUTED else None


def _verdict(name: str, before: ModuleOp, module: ModuleOp, known: Specification | None) -> Verdict:
    """Return the verdict on the stage behind a pass, for all sizes.

    Raises:
        Undecided: the stage is no nest, or holds something that the proof does not cover.
    """
    operators = [op for op in module.walk() if isinstance(op, OperatorOp)]
    if known is None:
        raise Undecided("the operator is unknown; begin with a module that holds it, or a gather.resolve")
    if not operators:
        failures = _failures_of_stage(module, known)
    elif before is module or _is_same_operator(before, module):
        failures = []
    elif "gather.view" in str(module) and "gather.view" not in str(before):
        failures = check_views(before, module)
    else:
        raise Undecided("the operator is no loop nest yet")
    if not failures:
        return Verdict(name, Status.PROVED)
    return Verdict(name, Status.REFUTED, failures[0].reason, 0, make_example(failures[0], before, module, known))


def _is_same_operator(before: ModuleOp, after: ModuleOp) -> bool:
    """Return whether both modules are one operator with the same meaning: attributes, mode and sizes.

    Elements may be erased to integers of their width, and then have one dimension more at the end of data.
    """
    found = [[op for op in module.walk() if isinstance(op, OperatorOp)] for module in (before, after)]
    if any(len(ops) != 1 for ops in found) or specification_of(before) != specification_of(after):
        return False
    (old,), (new,) = found
    (data, indices), (others, other_indices) = old.shapes(), new.shapes()
    if any("gather.view" in str(function.arg_attrs) for function in functions(after)):
        return str(before) == str(after)
    sources = [op.source for op in (old, new)]
    is_argument = all(isinstance(source, BlockArgument) and source.index == 0 for source in sources)
    is_same = type(old) is type(new) and is_argument and indices == other_indices
    return is_same and data == others[: len(data)] and len(others) <= len(data) + 1


def _failures_of_stage(module: ModuleOp, known: Specification) -> list[Failure]:
    """Return the violated conditions of a nest."""
    found = functions(module)
    if len(found) != 1:
        raise Undecided("the module has several functions")
    try:
        meaning = meaning_of(found[0])
        target = define(found[0], meaning, known)
        if not known.adds:
            return Conditions(meaning, target).find_violation()
        is_scaled = any(SCALE in attributes.data for attributes in found[0].arg_attrs or ())
        return SumConditions(meaning, target, is_scaled=is_scaled).find_violation()
    except Refuted as refuted:
        return [Failure(str(refuted))]
