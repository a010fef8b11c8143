"""The steps of one element at the operator level: the rule of the operator, as `ir.reference` carries it out."""

from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

from ...ir.dialects.gather_dialect import GradientOp, OperatorOp, ReductionOp
from ...ir.dialects.types import dense_array
from ...ir.element_types import number_scale
from ...ir.errors import BoundsError
from ...ir.interpreters.argument_views import bind_arguments
from ...ir.operator_spec import GatherElements, GatherMax, GatherNd, GatherReduce
from ...ir.semantics import Bounds
from .arrays import Arrays
from .rule import Rule, bag_rules, contributions, explained, rule_of
from .steps import Access, Shape, Step


class OperatorSteps:
    """Makes the steps of one operation of the operator level.

    Attributes:
        steps: the steps so far.
        sources: the positions in data, or in grad, that are read, in order.
    """

    def __init__(self, op: OperatorOp, arrays: Arrays, text: str, line: int):
        self.op, self.arrays, self.text, self.line = op, arrays, text, line
        self.spec, self.bounds = op.normalized(), op.bounds.data
        self.views, _ = bind_arguments(arrays.function, arrays.arrays)
        self.index_number = arrays.names.index("indices") if "indices" in arrays.names else None
        self.out_number = len(arrays.names) - 1
        self.steps: list[Step] = []
        self.sources: list[Shape] = []

    @property
    def indices(self) -> np.ndarray:
        """The indices as the operation is handed them."""
        if self.index_number is not None:
            found = self.views[self.index_number]
        else:
            owner = self.op.indices.owner
            assert isinstance(owner, arith.ConstantOp) and isinstance(owner.value, DenseIntOrFPElementsAttr)
            found = dense_array(owner.value)
        return found.view(f"u{found.dtype.itemsize}") if self.op.unsigned is not None else found

    def run(self, position: Shape) -> None:
        """Make the steps of the element at a position of the result.

        Raises:
            BoundsError: an index is not valid; the steps are those up to it.
        """
        place = self.arrays.view_place(self.out_number, position)
        if isinstance(self.op, GradientOp):
            return self._sum(position, place)
        if isinstance(self.op, ReductionOp):
            return self._reduce(position, place)
        rule = rule_of(self.spec, self.views[0].shape, self.indices, self.bounds, place)
        self._add(f"the rule for {list(position)}: {self._form()}")
        self._index(rule)
        data = self.arrays.arrays[0]
        value = np.zeros((), data.dtype)[()]
        if rule.source is not None:
            source = self.arrays.caller_position(0, rule.source)
            value = data[source]
            self._read(source, value)
        else:
            self._add("an index is outside: the element is a zero, and nothing is read")
        self._write(position, value, str(value))

    def _form(self) -> str:
        if isinstance(self.spec, GatherNd):
            return "out[before.., after..] = data[before.., positions..]"
        if isinstance(self.spec, GatherElements):
            return "out[before.., i, after..] = data[before.., position, after..]"
        return "out[before.., outer.., after..] = data[before.., outer.., position]"

    def _sum(self, position: Shape, place: Shape) -> None:
        """Add each element of grad to where the gather read it, in the order of the indices, and scale the sums."""
        grad = self.arrays.arrays[0]
        total = np.zeros((), grad.dtype)
        self._add(f"the sum at {list(position)} begins as {total[()]}")
        shape = self.arrays.view_shape(self.out_number)
        for rule in contributions(self.spec, shape, self.indices, self.bounds, place):
            self._index(rule)
            source = self.arrays.caller_position(0, rule.place)
            value, before = grad[source], total[()]
            self._read(source, value)
            with np.errstate(all="ignore"):
                total = np.asarray(total + value).astype(grad.dtype)
            self._add(f"sum = {before} + {value} = {total[()]}", {"sum": total[()]})
        assert isinstance(self.op, GradientOp)
        factor = np.array(number_scale(self.op.factor, grad.dtype)).astype(grad.dtype)
        said = str(total[()])
        if self.op.factor != 1:
            before, total = total[()], np.asarray(total * factor).astype(grad.dtype)
            said = f"{before} * {factor[()]} = {total[()]}"
        self._write(position, total[()], said)

    def _reduce(self, position: Shape, place: Shape) -> None:
        """Add the elements of a bag in its order, and divide the sum of a mean; or take the largest of them."""
        assert isinstance(self.spec, GatherReduce)
        data, is_largest = self.arrays.arrays[0], isinstance(self.spec, GatherMax)
        total, name = np.zeros((), data.dtype)[()], "largest" if is_largest else "sum"
        self._add(f"the {name} at {list(position)} begins as {total}")
        count = 0
        for number, rule in enumerate(bag_rules(self.views[0].shape, self.indices, self.bounds, place)):
            self._index(rule)
            if rule.source is None:
                self._add("an index is outside: nothing is read")
                continue
            count += 1
            source, before = self.arrays.caller_position(0, rule.source), total
            value = data[source]
            self._read(source, value)
            if is_largest:
                total = value if number == 0 or value > before else before
                made = f"{value}, the first" if number == 0 else f"the larger of {before} and {value} = {total}"
            else:
                with np.errstate(all="ignore"):
                    total = np.add(before, value, dtype=data.dtype)
                made = f"{before} + {value} = {total}"
            self._add(f"{name} = {made}", {name: total})
        said = str(total)
        if self.spec.divides:
            before, divisor = total, data.dtype.type(max(count, 1))
            with np.errstate(all="ignore"):
                total = np.divide(before, divisor, dtype=data.dtype)
            said = f"{before} / {divisor} = {total}"
        self._write(position, total, said)

    def _index(self, rule: Rule) -> None:
        """Load each component of an index, and resolve it."""
        for part, place in enumerate(rule.places):
            index, size, position = rule.indices[part], rule.sizes[part], rule.positions[part]
            access = None
            if self.index_number is not None:
                where = self.arrays.caller_position(self.index_number, place)
                access = self.arrays.whole(self.index_number, where, index)
            shown = f"indices{list(place)}" if access is None else str(access)
            where = "" if access is None else f": byte {access.byte}, cache line {access.cache_line}"
            self._add(f"index = {shown} = {index}{where}", {"index": index}, access)
            said = explained(index, size, self.bounds)
            self._add(said, {"index": index, "size": size, "position": position})
            if position is None and (size == 0 or self.bounds is Bounds.ERROR) and self.bounds is not Bounds.ZERO:
                raise BoundsError(said)

    def _read(self, position: Shape, value: Any) -> None:
        access = self.arrays.whole(0, position, value)
        self.sources.append(position)
        self._add(f"{access} = {value}: byte {access.byte}, cache line {access.cache_line}", {"element": value}, access)

    def _write(self, position: Shape, value: Any, said: str) -> None:
        access = self.arrays.whole(self.out_number, position, value, is_store=True)
        place = f"byte {access.byte}, cache line {access.cache_line}"
        self._add(f"{said} is stored to {access}: {place}", {"element": value}, access)

    def _add(self, note: str, values: dict[str, Any] | None = None, access: Access | None = None) -> None:
        accesses = () if access is None else (access,)
        needs = (len(self.steps) - 1,) if self.steps else ()
        self.steps.append(Step(self.op.name, self.text, self.line, (), values or {}, note, accesses, None, needs))
