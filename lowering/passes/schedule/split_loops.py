"""The passes `tile-loops` and `unroll`: a loop becomes two, level 3."""

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.gather_dialect import LoopOp, YieldOp
from ....ir.errors import ScheduleError
from ...nest.builder import (
    builder_at_end,
    builder_before,
    clone_iterations,
    kind_of,
    replace_op,
    split_off_remainder,
    tile_end,
)
from ...nest.queries import find_loop, functions, sole_inner_loop, static_size
from ...schedule import steps

LARGEST_TILE = 2**31


@steps.pass_of_step
class TileLoops(ModulePass, steps.TileLoops):
    """Split loops into tiles: `x` becomes `x_o` around `x_i`.

    A tile is the unit of work of a thread, and its working set fits the caches. The last tile ends early
    (`tail=guard`: its end is the smaller of two, unless the size is known to divide), or the size must be proved to
    divide (`tail=perfect`).

    before                              after tile-loops{loops=indices sizes=64}
        for indices in 0..n                 for indices_o in 0..n step 64
          body                                for indices_i in indices_o..min(indices_o + 64, n)
                                                body

    A loop over tiles or vectors has a step of several elements, and a size counts its steps: `indices_o` of step 64
    becomes `indices_o_o` of step 64 * size and `indices_o_i` of step 64.

    Preconditions: the loops exist, and their steps are constants. If `x` is parallel, `x_o` is, and no loop in `x` may
    be.

    Input:
        gather.loop indices(%i) = %c0 to %n step %c1 { ... }
    Output:
        gather.loop indices_o(%i_o) = %c0 to %n step %c64 {
          %limit = arith.addi %i_o, %c64 : index
          %end = arith.minsi %limit, %n : index
          gather.loop indices_i(%i_i) = %i_o to %end step %c1 { ... }
        }

    Raises:
        ScheduleError: no such loop, a size out of range, a step that is no constant, or a size that does not divide.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if len(self.loops) != len(self.sizes):
            raise ScheduleError(
                f"tile-loops: expected one size for each loop, got {len(self.loops)} loops and {len(self.sizes)} sizes"
            )
        for function in functions(op):
            for loop_name, size in zip(self.loops, self.sizes, strict=True):
                _tile(find_loop(function, loop_name), size, self.tail)


def _tile(loop: LoopOp, size: int, tail: str) -> None:
    every = static_size(loop.step)
    if every is None:
        raise ScheduleError(
            f"tile-loops: the step of {loop.label} depends on sizes, and a tile is a known number of steps; "
            "tile a loop inside it"
        )
    if not 1 <= size <= LARGEST_TILE // every:
        raise ScheduleError(
            f"tile-loops: expected a tile of 1 to {LARGEST_TILE // every} iterations for {loop.label}, got {size}"
        )
    inside = sole_inner_loop(loop)
    if inside is not None and inside.parallel is not None:
        raise ScheduleError(
            f"tile-loops: {loop.label} is parallel with {inside.label} in it, and {loop.label.inner_tile} would "
            f"not be; tile {loop.label} first, then make both parallel"
        )
    first, last = static_size(loop.lower), static_size(loop.upper)
    trips = None if first is None or last is None else max(-(-(last - first) // every), 0)
    if tail == "perfect" and (trips is None or trips % size):
        known = "is not known" if trips is None else f"is {trips}"
        raise ScheduleError(
            f"tile-loops: tail=perfect needs a trip count that {size} divides, but the trip count of {loop.label} "
            f"{known}; use tail=guard"
        )
    builder, name = builder_before(loop), loop.label.outer_tile
    step = builder.index(size * every)
    outer = builder.loop(name, (loop.lower, loop.upper, step), name.induction, loop, **kind_of(loop))
    start, builder = outer.induction, builder_at_end(outer)
    divides = trips is not None and trips % size == 0
    if tail == "guard" and not divides:
        end = tile_end(builder, start, step, loop.upper)
    else:
        end = builder.compute(arith.AddiOp, start, step, "end")
    body = loop.detach_region(loop.body)
    body.block.args[0].name_hint = loop.label.inner_tile.induction
    inner = builder.insert(
        LoopOp(loop.label.inner_tile, start, end, loop.step, body, **kind_of(loop) | {"parallel": False})
    )
    builder.insert(YieldOp(inner.total))
    if inner.total is not None and outer.total is not None:
        inner.total.name_hint = outer.total.name_hint = "n_outside"
    replace_op(loop, (), list(outer.results))


@steps.pass_of_step
class Unroll(ModulePass, steps.Unroll):
    """Run several iterations of a loop in one, without a test between them.

    The order of iterations stays. The last ones, which fill no whole step, go to a remainder loop, `inner_rest`.

    before                              after unroll{loop=inner factor=4}
        for inner in 0..n                   for inner in 0..n - n % 4 step 4
          out[i, j] = data[p, j]              out[i, j] = data[p, j]
                                              out[i, j + 1] = data[p, j + 1]
                                              ...
                                            for inner_rest in n - n % 4..n
                                              out[i, j] = data[p, j]

    Preconditions: the loop has step 1, is neither parallel nor a sum, and has no loop in it.

    Input:
        gather.loop inner(%j) = %c0 to %n step %c1 { ... }
    Output:
        gather.loop inner(%j) = %c0 to %whole step %c4 { ... }
        gather.loop inner_rest(%j) = %whole to %n step %c1 { ... }

    Raises:
        ScheduleError: a precondition does not hold.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            _unroll(find_loop(function, self.loop), self.factor)


def _unroll(loop: LoopOp, factor: int) -> None:
    if loop.parallel is not None or loop.total is not None:
        kind = "parallel" if loop.parallel is not None else "a sum"
        raise ScheduleError(f"unroll: {loop.label} is {kind}; unroll a loop inside it")
    if static_size(loop.step) != 1:
        raise ScheduleError(f"unroll: {loop.label} takes several iterations at a time already")
    ops = [op for op in loop.body.block.ops if not isinstance(op, YieldOp)]
    if any(op.regions for op in ops):
        raise ScheduleError(f"unroll: {loop.label} is not innermost; unroll a loop inside it")
    body, has_remainder = split_off_remainder(loop, factor)
    body.ordered = loop.ordered
    builder = builder_at_end(body)
    clone_iterations(builder, ops, loop, body, factor)
    builder.insert(YieldOp())
    if not has_remainder:
        Rewriter.erase_op(loop)
