"""The pass `lower-nest-to-loops`: it turns the nest into upstream loops, level 4."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import IndexType, IntegerType, ModuleOp, StringAttr, VectorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.attributes import LOOP_NAMES
from ....ir.dialects.gather_dialect import I64, AccumulateOp, LoopOp, MaskedLoadOp, OperatorOp, ResolveOp, YieldOp
from ....ir.dialects.upstream import CmpfOp, ParallelOp, SelectOp
from ....ir.errors import ScheduleError
from ...nest.builder import builder_before, made_from, replace_op, rewrite_ops, zero_of
from ...nest.queries import functions, is_inside, loops, why_not_shared


@dataclass(frozen=True)
class LowerNestToLoops(ModulePass):
    """Turn named loops into upstream's `scf`, and masks into `scf.if`.

    Parallel loops directly inside one another become one `scf.parallel`; the operations between them move to the start
    of its body. A summing loop carries its sum, or reduces it. Every loop keeps its names as `gather.loops`.

    Preconditions: no `gather.resolve` is left.

    Input:
        gather.loop parallel batch(%b) = %c0 to %n step %c1 {
          gather.loop parallel indices_o(%i_o) = %c0 to %m step %c64 { ... } }
    Output:
        scf.parallel (%b, %i_o) = (%c0, %c0) to (%n, %m) step (%c1, %c64) { ... } {gather.loops = "batch,indices_o"}

    Raises:
        ScheduleError: a `gather.resolve` is left.
    """

    name = "lower-nest-to-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for inner in function.walk():
                if isinstance(inner, ResolveOp):
                    raise ScheduleError("lower-nest-to-loops: a gather.resolve is left; run fold-bounds first")
                if isinstance(inner, OperatorOp):
                    raise ScheduleError(f"lower-nest-to-loops: a {inner.name} is left; run lower-to-nest first")
        rewrite_ops(op, _LowerMaskedLoad(), _LowerAccumulate())
        for function in functions(op):
            while remaining := loops(function):
                lower = _lower_sequential if remaining[0].parallel is None else _lower_parallel
                lower(remaining[0])


class _LowerMaskedLoad(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MaskedLoadOp, rewriter: PatternRewriter) -> None:
        load = memref.LoadOp.get(op.memref, op.subscripts)
        load.res.name_hint = "loaded"
        element = op.element.type
        zero = zero_of(LowerNestToLoops.name, element)
        zero.result.name_hint = "nothing"
        conditional = scf.IfOp(
            op.mask,
            [element],
            Region(Block([load, scf.YieldOp(load.res)])),
            Region(Block([zero, scf.YieldOp(zero.result)])),
        )
        conditional.results[0].name_hint = op.element.name_hint
        rewriter.replace(op, made_from(op, conditional))


class _LowerAccumulate(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AccumulateOp, rewriter: PatternRewriter) -> None:
        element, place = op.element.type, (op.memref, op.subscripts)
        load, new_store = memref.LoadOp.get(*place), memref.StoreOp.get
        if isinstance(element, VectorType):
            load, new_store, element = vector.LoadOp(*place, element), vector.StoreOp, element.element_type
        total = load.results[0]
        total.name_hint = "total"
        if op.first is None:
            added = (arith.AddiOp if isinstance(element, IntegerType) else arith.AddfOp)(total, op.element)
            added.result.name_hint = "added"
            made: list[Operation] = [added]
        else:
            made = _larger(element, total, op.element, op.first)
        steps: list[Operation] = [load, *made, new_store(made[-1].results[0], *place)]
        if op.mask is not None and not _guard_row(op, op.mask):
            steps = [scf.IfOp(op.mask, [], Region(Block([*steps, scf.YieldOp()])))]
        rewriter.replace(op, [made_from(op, step) for step in steps], [])


def _larger(type_: Attribute, total: SSAValue, element: SSAValue, first: SSAValue) -> list[Operation]:
    """Return the larger of the value in memory and an element, or the element where it is the first."""
    more: list[Operation] = []
    if isinstance(type_, IntegerType):
        larger: Operation = arith.MaxSIOp(total, element)
    else:
        more = [compared := CmpfOp(element, total, "ogt")]
        compared.result.name_hint = "is_larger"
        larger = SelectOp(compared.result, element, total)
    larger.results[0].name_hint = "larger"
    chosen = arith.SelectOp(first, element, larger.results[0])
    chosen.result.name_hint = "largest"
    return [*more, larger, chosen]


def _guard_row(op: AccumulateOp, mask: SSAValue) -> bool:
    """Test a mask once a row, around the loop that adds; return False where it is not the same for the whole row."""
    loop = op.parent_op()
    if not isinstance(loop, LoopOp) or loop.parallel is not None or loop.total is not None or is_inside(mask, loop):
        return False
    if any(inner.regions or isinstance(inner, _WRITING) for inner in loop.body.block.ops if inner is not op):
        return False
    conditional = made_from(op, scf.IfOp(mask, [], Region(Block([scf.YieldOp()]))))
    Rewriter.insert_op(conditional, InsertPoint.before(loop))
    loop.detach()
    Rewriter.insert_op(loop, InsertPoint.at_start(conditional.true_region.block))
    return True


_WRITING = (AccumulateOp, memref.StoreOp, vector.StoreOp)


def _lower_sequential(loop: LoopOp) -> None:
    terminator, body = loop.terminator, loop.detach_region(loop.body)
    initial: list[SSAValue] = []
    if terminator.value is None:
        replace_op(terminator, scf.YieldOp())
    else:
        initial = [_zero(loop)]
        carried = body.block.insert_arg(I64, 1)
        carried.name_hint = "sum"
        added = arith.AddiOp(carried, terminator.value)
        added.result.name_hint = "added"
        replace_op(terminator, [added, scf.YieldOp(added.result)])
    lowered = scf.ForOp(loop.lower, loop.upper, loop.step, initial, body)
    _finish(loop, lowered, [loop.label])


def _lower_parallel(root: LoopOp) -> None:
    """Lower `root` and the parallel loops directly in it to one `scf.parallel`."""
    nest, between = [root], list[Operation]()
    while (inner := _parallel_inner(nest[-1])) is not None:
        between += [op for op in nest[-1].body.block.ops if op is not inner and not isinstance(op, YieldOp)]
        nest.append(inner)
    innermost = nest[-1]
    body = Block(arg_types=[IndexType()] * len(nest))
    for argument, loop in zip(body.args, nest, strict=True):
        argument.name_hint = loop.induction.name_hint
        loop.induction.replace_all_uses_with(argument)
    core = [op for op in innermost.body.block.ops if not isinstance(op, YieldOp)]
    counted = innermost.terminator.value
    for op in [*between, *core]:
        op.detach()
        if isinstance(op, arith.ConstantOp):
            Rewriter.insert_op(op, InsertPoint.before(root))
        else:
            body.add_op(op)
    initial = [] if counted is None else [_zero(root)]
    if counted is None:
        body.add_op(scf.ReduceOp())
    else:
        sum_ = Block(arg_types=[I64, I64])
        added = arith.AddiOp(sum_.args[0], sum_.args[1])
        sum_.add_ops([added, scf.ReduceReturnOp(added.result)])
        body.add_op(scf.ReduceOp([counted], [Region(sum_)]))
    lower, upper, step = [loop.lower for loop in nest], [loop.upper for loop in nest], [loop.step for loop in nest]
    _finish(root, ParallelOp(lower, upper, step, Region(body), initial), [loop.label for loop in nest])


def _parallel_inner(loop: LoopOp) -> LoopOp | None:
    inner = [op for op in loop.body.block.ops if isinstance(op, LoopOp)]
    parallel = [op for op in inner if op.parallel is not None]
    if not parallel:
        return None
    reason = why_not_shared(loop, parallel[0]) if len(inner) == 1 else f"{loop.label} has several loops"
    if reason is not None:
        raise ScheduleError(f"lower-nest-to-loops: parallel loops cannot be shared as one: {reason}")
    return parallel[0]


def _zero(loop: LoopOp) -> SSAValue:
    return builder_before(loop).constant(0, I64, "none")


def _finish(loop: LoopOp, lowered: Operation, names: list[str]) -> None:
    made_from(loop, lowered).attributes[LOOP_NAMES] = StringAttr(",".join(names))
    if loop.total is not None:
        lowered.results[0].name_hint = loop.total.name_hint
    Rewriter.insert_op(lowered, InsertPoint.before(loop))
    replace_op(loop, (), list(lowered.results))
