"""Queries about loop nests: loops, accesses to memory, static sizes, and the operations that a value depends on."""

from collections.abc import Iterable, Iterator, Mapping

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from ...ir.dialects.attributes import VIEW, ViewAttr
from ...ir.dialects.gather_dialect import AccumulateOp, LoopOp, OperatorOp, YieldOp
from ...ir.dialects.types import element_size_bytes
from ...ir.dialects.upstream import CompressStoreOp, PrefetchOp, SIToFPOp, UIToFPOp
from ...ir.errors import ScheduleError, did_you_mean
from ..schedule.machine_model import LINE_BYTES

# The operations between the element that a reduction loads and the value that it adds.
Factor = arith.MulfOp | arith.AddfOp
Step = arith.ExtFOp | SIToFPOp | UIToFPOp | Factor


def functions(module: ModuleOp) -> list[func.FuncOp]:
    """Return the functions of a module that have a body."""
    return [op for op in module.ops if isinstance(op, func.FuncOp) and op.body.blocks]


def gathers(module: ModuleOp) -> list[tuple[func.FuncOp, OperatorOp]]:
    """Return every gather operator with the function it stands in."""
    return [(function, op) for function in functions(module) for op in function.walk() if isinstance(op, OperatorOp)]


def loops(root: Operation) -> list[LoopOp]:
    """Return every loop at or below `root`, outermost first."""
    return [op for op in root.walk() if isinstance(op, LoopOp)]


def find_loop(root: Operation, name: str) -> LoopOp:
    """Return the loop of that name; raises ScheduleError where there is none, or more than one."""
    found = [loop for loop in loops(root) if loop.label == name]
    if len(found) > 1:
        raise ScheduleError(f"{len(found)} loops are called {name!r}; give each a name of its own")
    if found:
        return found[0]
    names = [loop.label for loop in loops(root)]
    there = f"its loops are {', '.join(names)}" if names else "it has no loops; run lower-to-nest first"
    raise ScheduleError(f"the nest has no loop {name!r}; {there}{did_you_mean(name, names)}")


# The loads, and the stores, of elements and of vectors.
Load = memref.LoadOp | vector.LoadOp
Store = memref.StoreOp | vector.StoreOp | CompressStoreOp


def stores_to(root: Operation, memory: SSAValue) -> list[Store]:
    """Return the stores of elements and vectors at or below `root` to some memory, by itself or by a view of it."""
    return [op for op in root.walk() if isinstance(op, Store) and viewed(memory_of(op)) is memory]


def memory_of(op: Load | Store | AccumulateOp) -> SSAValue:
    """Return the memref that an operation reads or writes."""
    return op.memref if isinstance(op, memref.LoadOp | memref.StoreOp | AccumulateOp) else op.base


def written(root: Operation) -> set[SSAValue]:
    """Return the memory that is written at or below `root`; a view counts as the memref behind it."""
    return {viewed(memory_of(op)) for op in root.walk() if isinstance(op, Store | AccumulateOp)}


def viewed(memory: SSAValue) -> SSAValue:
    """Return the memref behind the views that merge its dimensions."""
    while isinstance(memory.owner, memref.CollapseShapeOp):
        memory = memory.owner.src
    return memory


def merged_dims(view: memref.CollapseShapeOp) -> list[list[int]]:
    """Return the dimensions of a memref that each dimension of its view merges."""
    return [[place.value.data for place in group] for group in view.reassociation]


def sole_inner_loop(loop: LoopOp) -> LoopOp | None:
    """Return the one loop directly in `loop`'s body, or None when there is none or more than one."""
    inner = [op for op in loop.body.block.ops if isinstance(op, LoopOp)]
    return inner[0] if len(inner) == 1 else None


def chain(root: LoopOp) -> list[LoopOp]:
    """Return `root` and the loops perfectly nested in it, outermost first."""
    found = [root]
    while (inner := sole_inner_loop(found[-1])) is not None:
        found.append(inner)
    return found


def enclosing_loops(op: Operation) -> Iterator[LoopOp]:
    """Yield the loops around `op`, innermost first."""
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, LoopOp):
            yield parent
        parent = parent.parent_op()


def why_not_shared(outer: LoopOp, inner: LoopOp) -> str | None:
    """Return why two parallel loops cannot be collapsed into one, or None when they can.

    `inner` must be the one loop in `outer`, beside operations that may run again; its bounds must come from outside of
    `outer` and of the parallel loops around that; and `outer` must sum the totals of `inner`.
    """
    beside = [op for op in outer.body.block.ops if op is not inner and not isinstance(op, YieldOp)]
    changed = written(outer)
    # Operations that may run again compute, prefetch, or load from memory that nobody stores to.
    loads = {op for op in beside if isinstance(op, memref.LoadOp)}
    others = [op for op in beside if op not in loads and not isinstance(op, PrefetchOp)]
    if any(op.regions or not computes(op) for op in others) or any(op.memref in changed for op in loads):
        return f"{outer.label} does more than run {inner.label}"
    if outer.terminator.value is not inner.total:
        return f"{outer.label} does not yield the sum of {inner.label}"
    if any(operand is inner.total for op in beside for operand in op.operands):
        return f"{outer.label} uses the sum of {inner.label}"
    bounds = (inner.lower, inner.upper, inner.step)
    moving = [bound for bound in bounds if not isinstance(bound.owner, arith.ConstantOp)]  # constants stand anywhere
    for around in (outer, *enclosing_loops(outer)):
        if around.parallel is None and around is not outer:
            break
        if any(is_inside(bound, around) for bound in moving):
            return f"the bounds of {inner.label} come from {around.label}; only one of them can be parallel"
    return None


def computes(op: Operation) -> bool:
    """Return whether an operation touches no memory; the caller must not run a division earlier, which may trap."""
    return is_side_effect_free(op) or op.name.startswith("arith.")


def line_elements(memory: SSAValue) -> int:
    """Return the number of elements in a line of the caches, at least one."""
    element = SSAValue.get(memory, type=MemRefType).type.element_type
    return max(LINE_BYTES // element_size_bytes(element), 1)


def static_size(value: SSAValue) -> int | None:
    """Return the size that a `memref.dim` or a constant of type index stands for, or None when it is not static."""
    owner = value.owner
    if isinstance(owner, memref.DimOp) and isinstance(owner.source.type, MemRefType):
        dim = static_size(owner.index)
        shape = owner.source.type.get_shape()
        return shape[dim] if dim is not None and 0 <= dim < len(shape) and shape[dim] >= 0 else None
    constant = getattr(owner, "value", None)
    if isinstance(constant, IntegerAttr) and isinstance(constant.type, IndexType):
        return constant.value.data
    return None


def static_trips(loop: LoopOp) -> int | None:
    """Return the trip count of a loop of step 1, from its bounds or its tile; None where neither is static."""
    first, last = static_size(loop.lower), static_size(loop.upper)
    if first is not None and last is not None:
        return last - first
    end = loop.upper.owner
    return static_size(end.rhs) if isinstance(end, arith.AddiOp) and end.lhs is loop.lower else None


def most_iterations(loop: LoopOp) -> int | None:
    """Return an upper bound of the trip count of a loop of step 1, from static bounds or its tile; or None."""
    first, last = static_size(loop.lower), static_size(loop.upper)
    if first is not None and last is not None:
        return max(last - first, 0)
    ends = list(loop.upper.owner.operands) if isinstance(loop.upper.owner, arith.MinSIOp) else [loop.upper]
    for end in ends:
        if isinstance(end.owner, arith.AddiOp) and end.owner.lhs is loop.lower:
            return static_size(end.owner.rhs)
    return None


def tiled_end(loop: LoopOp) -> SSAValue | None:
    """Return the end of the last tile, for a loop over one tile or over its whole vectors; None for any other loop."""
    tile = next((around for around in enclosing_loops(loop) if around.induction is loop.lower), None)
    end = loop.upper.owner.lhs if isinstance(loop.upper.owner, arith.SubiOp) else loop.upper
    if tile is None or not isinstance(end.owner, arith.MinSIOp) or tile.upper not in end.owner.operands:
        return None
    return tile.upper


def copying_store(function: func.FuncOp) -> memref.StoreOp | None:
    """Return the one store of an element to an argument; None where there is none, or more, or the function adds."""
    found = [op for op in function.walk() if isinstance(op, memref.StoreOp) and argument_number(op.memref, function)]
    adds = any(isinstance(op, AccumulateOp) for op in function.walk())
    return found[0] if len(found) == 1 and not adds else None


def argument_number(value: SSAValue, function: func.FuncOp) -> int | None:
    """Return the number of the function's argument that a value is, or None."""
    if isinstance(value, BlockArgument) and value.block is function.body.block:
        return value.index
    return None


def view_of(value: SSAValue, function: func.FuncOp) -> ViewAttr | None:
    """Return the view that `collapse-dims` gave an argument of the function, or None."""
    number = argument_number(value, function)
    attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
    view = attributes[number].data.get(VIEW) if number is not None and number < len(attributes) else None
    return view if isinstance(view, ViewAttr) else None


def guarded_copy(function: func.FuncOp, by: str) -> tuple[LoopOp, scf.IfOp]:
    """Return the nest that checks and the branch that copies; raises ScheduleError in the name of the pass `by`."""
    terminator = function.body.block.last_op
    assert terminator is not None
    (count,) = terminator.operands
    conditions = [use.operation for use in count.uses if use.operation is not terminator]
    branches = [use.operation for condition in conditions for result in condition.results for use in result.uses]
    if isinstance(check := count.owner, LoopOp) and len(conditions) == len(branches) == 1:
        (branch,) = branches
        if check.label.nest == "check" and isinstance(branch, scf.IfOp) and not branch.results:
            return check, branch
    raise ScheduleError(
        f"{by}: expected a nest that counts the indices outside, and a branch that copies where there are none, as "
        "fold-bounds makes them"
    )


def is_inside(value: SSAValue, loop: LoopOp) -> bool:
    """Return whether a value is the loop's induction variable, or defined somewhere in its body."""
    return loop.body.block.is_ancestor(value.owner)


def slice_of(values: Iterable[SSAValue], loop: LoopOp) -> list[Operation]:
    """Return the operations in a loop that compute the values, in an order that respects their operands."""
    found: dict[Operation, None] = {}

    def visit(value: SSAValue) -> None:
        owner = value.owner
        if isinstance(owner, Operation) and is_inside(value, loop) and owner not in found:
            for operand in owner.operands:
                visit(operand)
            found[owner] = None

    for value in values:
        visit(value)
    return list(found)


def inductions_of(values: Iterable[SSAValue], loop: LoopOp) -> set[SSAValue]:
    """Return the induction variables, of the loop and of those in it, that values are computed from."""
    values = list(values)
    operands = [*values, *(operand for op in slice_of(values, loop) for operand in op.operands)]
    return {value for value in operands if isinstance(value, BlockArgument) and is_inside(value, loop)}


def depends_on(value: SSAValue, loop: LoopOp) -> bool:
    """Return whether a value is computed from a loop's induction variable."""
    return loop.induction in inductions_of([value], loop)


def clone_slice(
    ops: Iterable[Operation], builder: Builder, values: Mapping[SSAValue, SSAValue]
) -> dict[SSAValue, SSAValue]:
    """Insert copies of operations with some operands replaced, and return `values` extended by their results.

    Operations whose results have values already are left out.
    """
    mapping = dict(values)
    for op in ops:
        if op.results and all(result in mapping for result in op.results):
            continue
        copy = builder.insert(op.clone(mapping))
        for before, after in zip(op.results, copy.results, strict=True):
            after.name_hint = before.name_hint
            mapping[before] = after
    return mapping


def sum_of(function: func.FuncOp) -> AccumulateOp | None:
    """Return the one `gather.accumulate` of a function, or None where there is none, or more."""
    found = [op for op in function.walk() if isinstance(op, AccumulateOp)]
    return found[0] if len(found) == 1 else None


def steps_from_load(element: SSAValue) -> tuple[SSAValue, list[Step]]:
    """Return the loaded element, and the steps from it to the added element, in their order."""
    steps: list[Step] = []
    while isinstance(step := element.owner, Step):
        steps.append(step)
        element = step.operands[0]
    return element, steps[::-1]
