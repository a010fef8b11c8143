"""Prove a pipeline: each pass by itself, for all sizes, against what the operator means."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from ...ir.dialects.attributes import SCALE
from ...ir.dialects.gather_dialect import GradientOp, OperatorOp
from ...ir.modules.context import verify_module
from ..nest.queries import functions
from .conditions import Failure, failures_of
from .examples import Example, make_example, sampled
from .specification import Specification, specification_of, wanted
from .sums import failures_of_sum
from .values import Refuted, Undecided
from .views import failure_of_views
from .walk import meaning_of


class Status(StrEnum):
    """What is known of a pass."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNDECIDED = "undecided"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class Verdict:
    """What is known of one pass of a pipeline.

    Attributes:
        name: the pass with its options.
        status: proved for all sizes, refuted, undecided, or unchanged where the pass changes nothing.
        reason: what does not hold, or why it is not decided.
        samples: the number of gathers that were interpreted instead of a proof; 0 where it was decided.
        example: a small gather on which it goes wrong.
    """

    name: str
    status: Status
    reason: str = ""
    samples: int = 0
    example: Example | None = None

    def __str__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        samples = f"; {self.samples} gathers of other sizes give the right bytes" if self.samples else ""
        example = [] if self.example is None else [f"  {line}" for line in str(self.example).split("\n")]
        return "\n".join([f"{self.name}: {self.status}{reason}{samples}", *example])


def prove_passes(
    module: ModuleOp, passes: Sequence[ModulePass], context: Context, known: Specification | None = None
) -> Iterator[Verdict]:
    """Run passes on a module in place and yield what is known of each.

    The stage after a pass is compared with what the operator means, which the first stage says that holds the operator
    or a `gather.resolve`, or `known` says. So what one pass breaks stays refuted behind it.

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
            failures = _failures_of_step(before, module, known)
        except Undecided as undecided:
            count, wrong = sampled(start, passes[: number + 1], context)
            if wrong is None:
                yield Verdict(name, Status.UNDECIDED, str(undecided), count)
            else:
                yield Verdict(name, Status.REFUTED, "a sampled gather gives other bytes", 0, wrong)
            continue
        yield _verdict(name, failures, before, module, known)


def refuted_input(module: ModuleOp, known: Specification) -> Verdict | None:
    """Return that a stage is refuted before any pass; None where it is right, undecided, or no nest yet."""
    try:
        failures = _failures_of_stage(module, known)
    except Undecided:
        return None
    return _verdict("the input", failures, module, module, known) if failures else None


def _verdict(
    name: str, failures: list[Failure], before: ModuleOp, module: ModuleOp, known: Specification | None
) -> Verdict:
    if not failures:
        return Verdict(name, Status.PROVED)
    return Verdict(name, Status.REFUTED, failures[0].reason, 0, make_example(failures[0], before, module, known))


def _failures_of_step(before: ModuleOp, module: ModuleOp, known: Specification | None) -> list[Failure]:
    """Return what is wrong with the stage behind a pass."""
    if _is_same_operator(before, module):
        return []
    has_operator = any(isinstance(op, OperatorOp) for op in module.walk())
    if has_operator and "gather.view" in str(module) and "gather.view" not in str(before):
        return failure_of_views(before, module)
    return _failures_of_stage(module, known)


def _is_same_operator(before: ModuleOp, after: ModuleOp) -> bool:
    """Return whether both modules are one operator with the same meaning: attributes, mode and sizes.

    Elements may be erased to integers of their width, and then have one dimension more at the end of data.
    """
    found = [[op for op in module.walk() if isinstance(op, OperatorOp)] for module in (before, after)]
    if any(len(ops) != 1 for ops in found):
        return False
    (old,), (new,) = found
    if specification_of(before) != specification_of(after) or type(old) is not type(new):
        return False
    if isinstance(old, GradientOp) and isinstance(new, GradientOp) and old.factor != new.factor:
        return False
    (data, indices), (others, other_indices) = old.shapes(), new.shapes()
    if any("gather.view" in str(function.arg_attrs) for function in functions(after)):
        return str(before) == str(after)
    is_argument = all(isinstance(op.source.owner, Block) and op.source.index == 0 for op in (old, new))  # type: ignore
    return is_argument and data == others[: len(data)] and len(others) <= len(data) + 1 and indices == other_indices


def _failures_of_stage(module: ModuleOp, known: Specification | None) -> list[Failure]:
    """Return what is wrong with a stage; nothing where it is proved for all sizes.

    Raises:
        Undecided: the stage is no nest, or holds something that the proof does not cover.
    """
    if known is None:
        raise Undecided("nothing says what the operator was; begin with a module that holds it, or a gather.resolve")
    found = functions(module)
    if len(found) != 1:
        raise Undecided("the module has several functions")
    if any(isinstance(op, OperatorOp) for op in module.walk()):
        raise Undecided("the operator is no loop nest yet")
    try:
        meaning = meaning_of(found[0])
        target = wanted(found[0], meaning, known)
        if not known.adds:
            return failures_of(meaning, target)
        is_scaled = any(SCALE in attributes.data for attributes in found[0].arg_attrs or ())
        return failures_of_sum(meaning, target, is_scaled=is_scaled)
    except Refuted as refuted:
        return [Failure(str(refuted))]
