"""Vectors for the adding nest of a gradient or a reduction: several elements of a row are added at once.

Between its load and where it is added, an element of a reduction may be widened, multiplied by a weight, and a bias
added to it.
"""

from xdsl.dialects import arith, func, memref, vector
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from ...ir.dialects.gather_dialect import AccumulateOp, LoopOp, YieldOp
from ...ir.dialects.types import element_size_bytes
from ...ir.dialects.upstream import SIToFPOp, UIToFPOp
from ...ir.errors import ScheduleError
from .backward_slice import clone_slice, depends_on, slice_of
from .builder import NestBuilder, builder_at_end, made_from
from .queries import computes, enclosing_loops, static_size
from .split_loop import split_off_remainder
from .vector_checks import check_in_pieces, check_lanes, runs_along

WIDTHS = (1, 2, 4, 8)
Factor = arith.MulfOp | arith.AddfOp
Step = arith.ExtFOp | SIToFPOp | UIToFPOp | Factor


def sum_of(function: func.FuncOp) -> AccumulateOp | None:
    """Return the one `gather.accumulate` of a function, or None where there is none, or more."""
    found = [op for op in function.walk() if isinstance(op, AccumulateOp)]
    return found[0] if len(found) == 1 else None


def vectorize_sum(accumulate: AccumulateOp, lanes: int) -> None:
    """Add `lanes` elements of a row at once, and the others in a remainder loop.

    Each element has a sum of its own, so the order of the contributions to it stays. Raises ScheduleError where vectors
    do not fit, or the innermost loop does not add elements that lie side by side.
    """
    loop = next(enclosing_loops(accumulate), None)
    if loop is None:
        raise ScheduleError("vectorize-inner: the element is added outside of every loop")
    if isinstance(accumulate.element.type, VectorType):
        raise ScheduleError("vectorize-inner: vectors are added already")
    check_lanes(lanes, element_size_bytes(accumulate.element.type), WIDTHS)
    load = _checked_load(accumulate, loop)
    body, rest = split_off_remainder(loop, lanes)
    builder = builder_at_end(body, accumulate)
    masks = [value for value in (accumulate.mask, accumulate.first) if value is not None]
    steps = steps_from_load(accumulate.element)[1]
    factors = [step.rhs for step in steps if isinstance(step, Factor)]
    ops = slice_of([*load.indices, *accumulate.subscripts, *masks, *factors], loop)
    mapping = clone_slice(ops, builder, {loop.induction: body.induction})

    def at(values: list[SSAValue]) -> list[SSAValue]:
        return [mapping.get(value, value) for value in values]

    type_ = VectorType(load.res.type, [lanes])
    loaded = made_from(load, vector.LoadOp(load.memref, at(list(load.indices)), type_))
    elements = insert_steps(builder, builder.named(loaded, load.res.name_hint), steps, mapping)
    mask, first = (
        None if value is None else mapping.get(value, value) for value in (accumulate.mask, accumulate.first)
    )
    builder.insert(AccumulateOp(elements, accumulate.memref, at(list(accumulate.subscripts)), mask, first))
    builder.insert(YieldOp())
    if not rest:
        Rewriter.erase_op(loop)


def _checked_load(accumulate: AccumulateOp, loop: LoopOp) -> memref.LoadOp:
    """Return the load of the element that is added, which has stride 1 as the addition has."""
    check_in_pieces(loop)
    plain = (AccumulateOp, YieldOp, memref.LoadOp)
    beside = [op for op in loop.body.block.ops if not isinstance(op, plain)]
    if static_size(loop.step) != 1 or any(op.regions or not computes(op) for op in beside):
        raise ScheduleError(f"vectorize-inner: {loop.label} does more than add an element in steps of 1")
    load = steps_from_load(accumulate.element)[0].owner
    if not (
        isinstance(load, memref.LoadOp)
        and runs_along(loop, load.memref, load.indices)
        and runs_along(loop, accumulate.memref, accumulate.subscripts)
    ):
        raise ScheduleError(f"vectorize-inner: iterations of {loop.label} do not add side by side")
    if accumulate.mask is not None and depends_on(accumulate.mask, loop):
        raise ScheduleError(f"vectorize-inner: each iteration of {loop.label} has an index of its own")
    return load


def steps_from_load(element: SSAValue) -> tuple[SSAValue, list[Step]]:
    """Return what is loaded, and the steps from there to an element, in their order."""
    steps: list[Step] = []
    while isinstance(step := element.owner, Step):
        steps.append(step)
        element = step.operands[0]
    return element, steps[::-1]


def insert_steps(
    builder: NestBuilder, loaded: SSAValue, steps: list[Step], mapping: dict[SSAValue, SSAValue]
) -> SSAValue:
    """Insert the same steps for a vector of elements, and return what is added; `mapping` has copies of factors."""
    assert isinstance(loaded.type, VectorType)
    value, shape = loaded, loaded.type.get_shape()
    for step in steps:
        type_ = VectorType(step.results[0].type, shape)
        if isinstance(step, Factor):
            factor = mapping.get(step.rhs, step.rhs)
            what = "weights" if isinstance(step, arith.MulfOp) else "biases"
            factors = builder.named(made_from(step, vector.BroadcastOp(factor, type_)), what)
            made: Operation = type(step)(value, factors)
        else:
            made = type(step)(value, type_)  # type: ignore[arg-type]
        value = builder.named(made_from(step, made), step.results[0].name_hint)
    return value
