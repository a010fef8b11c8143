"""The layout of a problem: its arrays as a kernel sees them. Plain Python.

It uses the functions that the passes use (`ir.canonical`, `ir.semantics`), so a kernel's arguments fit its IR.
"""

from dataclasses import dataclass

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.canonical import CanonicalGather, Operand, Strided, canonical_gather, erased_size, is_one_run
from ...ir.element_types import element_type_name, machine_width, number_name, number_width
from ...ir.loop_name import LoopName
from ...ir.problem import Problem
from ...ir.semantics import DYNAMIC, LARGEST_NARROW_AXIS, Bounds, reaches_past
from ...lowering.schedule.shape import Loop, NestShape, trips


@dataclass(frozen=True, slots=True)
class Layout:
    """The canonical views of a problem's arrays.

    Attributes:
        problem: the problem.
        canonical: the views, strides in elements of `width_bytes`.
        width_bytes: the size of the elements that are moved; for a widening reduction, the size of data's elements.
        reaches: for each indexed axis, whether the index dtype has values past it.
    """

    problem: Problem
    canonical: CanonicalGather
    width_bytes: int
    reaches: tuple[bool, ...]

    @classmethod
    def of(cls, problem: Problem) -> "Layout":
        """Return the layout of a problem."""
        table, indices, slices = problem.table, problem.indices, problem.slices
        of_table, of_slices, of_indices = table.layout_strides, slices.layout_strides, indices.layout_strides
        if not problem.adds:
            width = machine_width(table.dtype.itemsize, (*of_table, *of_slices))
        else:
            width = number_width(table.dtype)
        strided = (
            _strided(table, of_table, width),
            _strided(indices, of_indices, indices.dtype.itemsize),
            _strided(slices, of_slices, number_width(slices.dtype) if problem.widens else width),
        )
        roles = problem.operator.roles(len(strided[0].shape), indices.shape)
        largest = int(np.iinfo(indices.dtype).max)
        return cls(
            problem,
            canonical_gather(*strided, roles, covers_data=problem.gradient is not None),
            width,
            tuple(reaches_past(largest, size) for size in problem.axis_sizes),
        )

    @property
    def has_check(self) -> bool:
        """Whether indices are checked in a nest of their own."""
        return self.problem.bounds is Bounds.ERROR and any(self.reaches)

    @property
    def arguments(self) -> tuple[Operand, Operand, Operand]:
        """The views in the order of the kernel's arguments: the source, the indices, the result."""
        table, indices, slices = self.canonical.data, self.canonical.indices, self.canonical.out
        return (table, indices, slices) if self.problem.gradient is None else (slices, indices, table)

    @property
    def nest(self) -> NestShape:
        """The sizes that decide the schedule."""
        problem, canonical = self.problem, self.canonical
        loops = list(canonical.loops().items())
        return NestShape(
            tuple(loops),
            self._checked(loops) if self.has_check else (),
            self.width_bytes,
            tuple(zip(canonical.data.dims, canonical.data.shape, strict=True)),
            is_gradient=problem.gradient is not None,
            scales=problem.gradient is not None and problem.gradient.scale != 1,
            looked_up=frozenset(canonical.indices.dims),
            index_bytes=problem.indices.dtype.itemsize,
            sum_bytes=number_width(problem.slices.dtype) if problem.widens else 0,
            is_packed=canonical.out.known_strides is None,
            has_packed_rows=(strides := canonical.data.known_strides) is None or strides[-1] == 1,
            has_packed_indices=canonical.indices.known_strides is None,
        )

    def _checked(self, loops: list[Loop]) -> tuple[Loop, ...]:
        """Return the loops that check the indices: one loop where the indices lie in one run."""
        indices = self.canonical.indices
        found = tuple(loop for loop in loops if loop[0] in indices.dims)
        return ((LoopName("indices"), trips(found)),) if is_one_run(indices) else found

    @property
    def kernel_class(self) -> str:
        """The text that, with the schedule, decides a kernel's code; it has only sizes and ranks that the code has."""
        problem, canonical = self.problem, self.canonical
        reach = " ".join("reaches past" if past else "stays within" for past in self.reaches)
        wide = " on a wide axis" if any(size > LARGEST_NARROW_AXIS for size in problem.axis_sizes) else ""
        element = f"{8 * self.width_bytes} bits"
        if problem.adds:
            is_scaled = problem.gradient is not None and problem.gradient.scale != 1
            name = element_type_name if problem.widens else number_name
            element = f"{name(problem.table.dtype)}{' scaled' if is_scaled else ''}"
        return (
            f"{problem.name} {element}, {problem.indices.dtype.name} {reach}{wide}, bounds {problem.bounds}, "
            f"data<{_text(canonical.data)}>, indices<{_text(canonical.indices)}>, out<{_text(canonical.out)}>"
        )


def _strided(spec: ArraySpec, byte_strides: tuple[int, ...], width: int) -> Strided:
    """Return an array in units of `width` bytes, with one more dimension where an element has several.

    `byte_strides` are the `layout_strides` of the array.
    """
    units = spec.dtype.itemsize // width
    shape = (*spec.shape, units) if units > 1 else spec.shape
    if not byte_strides:
        return Strided(shape, None)
    strides = tuple(stride // width for stride in byte_strides)
    return Strided(shape, (*strides, 1) if units > 1 else strides)


def _text(operand: Operand) -> str:
    """Return the text of an operand after `erase-sizes`."""
    sizes = zip(operand.dims, operand.shape, strict=True)
    text = " ".join([f"{dim} {'?' if (known := erased_size(size, dim)) == DYNAMIC else known}" for dim, size in sizes])
    strides = operand.known_strides
    if strides is None:
        return text
    return f"{text} strides {' '.join(['?' if stride is None else str(stride) for stride in strides])}"
