"""The pass `hoist-indices`: within the scheduled nest, level 3."""

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import IndexType, MemRefType, ModuleOp, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ....ir.dialects.attributes import NARROW_AXES
from ....ir.dialects.gather_dialect import LoopOp, YieldOp
from ....ir.errors import ScheduleError
from ....ir.semantics import LARGEST_NARROW_AXIS
from ...nest.builder import NestBuilder, builder_at_end, builder_at_start, builder_before, erase_unused
from ...nest.queries import (
    argument_number,
    clone_slice,
    copying_store,
    enclosing_loops,
    find_loop,
    functions,
    inductions_of,
    is_inside,
    most_iterations,
    slice_of,
    static_size,
)
from ...schedule import steps

# All buffers together take at most this much of the stack of a thread, which may be half a megabyte.
MOST_STAGED_BYTES = 256 * 1024


@steps.pass_of_step
class HoistIndices(ModulePass, steps.HoistIndices):
    """Resolve the indices of a tile once, and stage them in a buffer.

    An outer loop that repeats the indices then reads resolved positions, four bytes each when every axis is smaller
    than 2**31; and the loop that resolves has no random loads, so it runs in vectors. Each component of a tuple has a
    buffer. In mode `zero` a position of -1 says that the index is out of range.

    before                              after hoist-indices{before=outer_i}
        for outer_i in ...                  for indices_i in t..t+256
          for indices_i in t..t+256           positions[i - t] = resolve(indices[i])
            p = resolve(indices[i])         for outer_i in ...
            out[o, i] = data[o, p]            for indices_i in t..t+256
                                                out[o, i] = data[o, positions[i - t]]

    Preconditions: the loops at and inside `before` that the indices depend on are tiles, or of a static size, and
    none of them is parallel; `fold-bounds` has run.

    Input:
        gather.loop indices_i(%i) = %t to %end step %c1 { %index = memref.load %indices[%b, %i] ... }
    Output:
        %positions = memref.alloca() : memref<256xi32>
        gather.loop resolve_indices_i(%i) = %t to %end step %c1 { ... memref.store %narrow, %positions[%place] }
        gather.loop indices_i(%i) = %t to %end step %c1 { %narrow = memref.load %positions[%place] ... }

    What it does not do: reuse positions in the next tile, or stage positions that depend on no loop at or inside
    `before`; `hoist-invariants` moves these.

    Raises:
        ScheduleError: a precondition does not hold, the indices are hoisted already, or the buffers would take more
            than 256 KiB.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            _Hoist(function, find_loop(function, self.before)).hoist()


class _Hoist:
    """The positions of one nest, and the loops over which they are resolved."""

    def __init__(self, function: func.FuncOp, root: LoopOp):
        self.function, self.root = function, root
        store = copying_store(function)
        if store is None or not any(loop is root for loop in enclosing_loops(store)):
            raise ScheduleError(f"hoist-indices: expected {root.label} to be a loop that copies")
        self.inside: SSAValue | None = None
        value = store.value
        if isinstance(value.owner, arith.SelectOp):
            self.inside, value = value.owner.cond, value.owner.lhs
        if not isinstance(load := value.owner, memref.LoadOp):
            raise ScheduleError("hoist-indices: expected a plain load of the element; run fold-bounds first")
        self.positions = [
            place
            for place in dict.fromkeys(load.indices)
            if any(isinstance(op, memref.LoadOp) for op in slice_of([place], root))
        ]
        if not self.positions:
            raise ScheduleError(f"hoist-indices: no index is resolved in {root.label}")
        if self.inside is not None and not is_inside(self.inside, root):
            self.inside = None
        looked_up = (op for op in slice_of(self._resolved(), root) if isinstance(op, memref.LoadOp))
        if any(isinstance(op.memref.owner, memref.AllocaOp) for op in looked_up):
            raise ScheduleError(f"hoist-indices: the indices of {root.label} are hoisted already")
        around = list(enclosing_loops(store))
        nest = around[: around.index(root) + 1][::-1]
        inductions = inductions_of(self._resolved(), root)
        self.loops = [loop for loop in nest if loop.induction in inductions]
        self._check(nest)

    def _resolved(self) -> list[SSAValue]:
        return [*self.positions, *([] if self.inside is None else [self.inside])]

    def _check(self, nest: list[LoopOp]) -> None:
        root = self.root.label
        if not self.loops:
            raise ScheduleError(
                f"hoist-indices: the indices do not depend on {root} or a loop inside; there is no tile"
            )
        for loop in nest:
            if loop.parallel is not None:
                raise ScheduleError(
                    f"hoist-indices: {loop.label} is parallel, and a buffer belongs to one thread; "
                    "hoist before a loop inside it"
                )
        self.sizes = [most_iterations(loop) or 0 for loop in self.loops]
        staged_bytes = 1
        for loop, size in zip(self.loops, self.sizes, strict=True):
            if static_size(loop.step) != 1 or not size:
                raise ScheduleError(
                    f"hoist-indices: expected a tile of {loop.label.untiled}, whose size the buffer has; "
                    f"{loop.label} is none: tile it first"
                )
            if any(is_inside(bound, self.root) for bound in (loop.lower, loop.upper)):
                raise ScheduleError(f"hoist-indices: the bounds of {loop.label} are computed inside {root}")
            staged_bytes *= size
        self.width = i32 if _are_axes_narrow(self.function, self.positions) else i64
        staged_bytes *= len(self.positions) * self.width.width.data // 8
        if staged_bytes > MOST_STAGED_BYTES:
            raise ScheduleError(
                f"hoist-indices: the positions would take {staged_bytes} bytes of the stack, and may take "
                f"{MOST_STAGED_BYTES}; make the tiles smaller"
            )

    def hoist(self) -> None:
        builder = builder_before(self.root, self._resolving())
        buffers = [
            builder.named(memref.AllocaOp.get(self.width, None, self.sizes), "positions") for _ in self.positions
        ]
        self._fill(builder, buffers)
        self._read(buffers)

    def _fill(self, builder: NestBuilder, buffers: list[SSAValue]) -> None:
        """Build the loops that resolve, before the root."""
        mapping: dict[SSAValue, SSAValue] = {}
        made: list[LoopOp] = []
        one = builder.index(1)
        for loop in self.loops:
            name, bounds = loop.label.beside("resolve"), (loop.lower, loop.upper, one)
            made.append(builder.loop(name, bounds, loop.label.induction, loop))
            mapping[loop.induction] = made[-1].induction
            builder = builder_at_end(made[-1], self._resolving())
        mapping = clone_slice(slice_of(self._resolved(), self.root), builder, mapping)
        place = self._place(builder, mapping)
        inside = None if self.inside is None else mapping.get(self.inside, self.inside)
        for position, buffer in zip(self.positions, buffers, strict=True):
            value = builder.cast(mapping[position], i64, "wide")
            if inside is not None and position is self.positions[0]:
                outside = builder.constant(-1, 64, "outside")
                value = builder.select(inside, value, outside, "marked")
            if self.width != i64:
                value = builder.named(arith.TruncIOp(value, self.width), "narrow")
            builder.insert(memref.StoreOp.get(value, buffer, place))
        for loop in made:
            loop.body.block.add_op(YieldOp())

    def _resolving(self) -> Operation:
        """Return the operation that computes the first of the positions."""
        owner = self.positions[0].owner
        assert isinstance(owner, Operation)
        return owner

    def _place(self, builder: NestBuilder, inductions: dict[SSAValue, SSAValue]) -> list[SSAValue]:
        """Return the subscripts of a buffer, from the induction variables or their replacements."""
        inner = [(inductions.get(loop.induction, loop.induction), loop.lower) for loop in self.loops]
        return [builder.named(arith.SubiOp(*pair), "place") for pair in inner]

    def _read(self, buffers: list[SSAValue]) -> None:
        """Replace the positions, and the condition that they are valid, by the staged ones."""
        replaced = slice_of(self._resolved(), self.root)
        innermost = builder_at_start(self.loops[-1], self._resolving())
        place = self._place(innermost, {})
        for position, buffer in zip(self.positions, buffers, strict=True):
            value = innermost.load(buffer, place, "kept")
            if self.width != i64:
                value = innermost.named(arith.ExtSIOp(value, i64), "wide")
            if self.inside is not None and position is self.positions[0]:
                zero = innermost.constant(0, 64, "zero")
                inside = innermost.compare("sge", value, zero, self.inside.name_hint)
                self.inside.replace_all_uses_with(inside)
                value = innermost.compute(arith.MaxSIOp, value, zero, "clamped")
            result = innermost.cast(value, IndexType(), position.name_hint)
            position.replace_all_uses_with(result)
        erase_unused(replaced)


def _are_axes_narrow(function: func.FuncOp, positions: list[SSAValue]) -> bool:
    """Return whether every position fits in 32 bits."""
    if NARROW_AXES in function.attributes:
        return True
    sizes = [
        shape[dim]
        for load in function.walk()
        if isinstance(load, memref.LoadOp)
        and argument_number(load.memref, function) == 0
        and isinstance(load.memref.type, MemRefType)
        for shape in [load.memref.type.get_shape()]
        for dim, place in enumerate(load.indices)
        if place in positions
    ]
    return all(0 <= size <= LARGEST_NARROW_AXIS for size in sizes)
