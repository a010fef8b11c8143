"""The fallback where nothing is proved: interpret a stage on gathers of other sizes, and compare with the reference."""

import random
from collections.abc import Sequence

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.passes import ModulePass

from ...ir import reference
from ...ir.array_spec import ArraySpec
from ...ir.dialects.gather_dialect import GradientOp, OperatorOp
from ...ir.dialects.types import numpy_dtype
from ...ir.errors import GathernestError, InternalError
from ...ir.interpreters.argument_views import bind_arguments
from ...ir.interpreters.interpreter import interpret
from ...ir.modules.context import find_function
from ...ir.modules.operator_module import operator_module
from ...ir.operator_spec import GatherElements, GatherNd, Gradient, OperatorSpec
from ...ir.semantics import Bounds
from .examples import Arrays, Example, outcome
from .specification import Specification

# Gathers that are interpreted for one pass.
SAMPLES = 12
# Sizes of their dimensions: none, one, and on both sides of tiles and vectors.
SIZES = (0, 1, 2, 3, 5, 7, 9, 17)


def sampled(start: ModuleOp, passes: Sequence[ModulePass], context: Context) -> tuple[int, Example | None]:
    """Interpret what passes make of other sizes of an operator; return how many were right, and one that is not.

    None are tried where the module does not begin with an operator on tensors, or holds its indices as constants.
    """
    operators = [op for op in start.walk() if isinstance(op, OperatorOp)]
    if len(operators) != 1 or not isinstance(operators[0].operands[0].type, TensorType):
        return 0, None
    if len([op for op in start.walk() if op.name == "arith.constant"]):
        return 0, None
    operator, rng, right = operators[0], random.Random(7), 0
    for _ in range(SAMPLES):
        case = _Case(operator, rng)
        try:
            module = case.module()
            for step in passes:
                step.apply(context, module)
        except GathernestError:
            continue
        if not case.fits(module):
            continue
        wrong = case.compare(module)
        if wrong is not None:
            return right, wrong
        right += 1
    return right, None


class _Case:
    """An operator with other sizes, and arrays."""

    def __init__(self, op: OperatorOp, rng: random.Random):
        self.op, self.rng, self.spec = op, rng, op.normalized()
        shapes = op.shapes()
        self.data_shape, self.index_shape = self._shapes(*map(list, shapes))
        table, indices = op.table.type, op.operands[1].type
        assert isinstance(table, TensorType) and isinstance(indices, TensorType)
        self.dtype, self.index_type = numpy_dtype(table.element_type), numpy_dtype(indices.element_type)

    def _shapes(self, data: list[int], indices: list[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        data = [self.rng.choice(SIZES[1:]) for _ in data]
        if self.spec.adds:
            data[1:] = self.op.shapes()[0][1:]  # the size of a row may be part of the code
        spec, length = self.spec, indices[-1:] if isinstance(self.spec, GatherNd) else []
        shared = getattr(spec, "batch_dims", 0)
        indices = [*data[:shared], *(self.rng.choice(SIZES) for _ in indices[shared:])]
        if isinstance(spec, GatherElements):
            size = indices[spec.axis]
            indices = data[: len(indices)]
            indices[spec.axis] = size
        elif length:
            indices[-1:] = length
        return tuple(data), tuple(indices)

    def module(self) -> ModuleOp:
        """Return the operator in these sizes."""
        gradient = Gradient(self.op.factor) if isinstance(self.op, GradientOp) else None
        data, indices = ArraySpec(self.data_shape, self.dtype), ArraySpec(self.index_shape, self.index_type)
        return operator_module(self.spec, data, indices, bounds=self.op.bounds.data, gradient=gradient)

    def fits(self, module: ModuleOp) -> bool:
        """Return whether the code of a module holds for these sizes."""
        slices = self.spec.result_shape(self.data_shape, self.index_shape)
        shapes = (slices, self.index_shape, self.data_shape) if isinstance(self.op, GradientOp) else ()
        shapes = shapes or (self.data_shape, self.index_shape, slices)
        result = self.dtype if isinstance(self.op, GradientOp) else self.spec.result_dtype(self.dtype)
        types = (self.dtype, self.index_type, result)
        try:
            bind_arguments(
                find_function(module, "gather"), [np.zeros(*array) for array in zip(shapes, types, strict=True)]
            )
        except InternalError:
            return False
        return True

    def compare(self, module: ModuleOp) -> Example | None:
        """Return the gather where a module gives other bytes than the reference; None where it gives the same."""
        spec, mode = self.spec, self.op.bounds.data
        sizes = [self.data_shape[axis] for axis in spec.axes(self.index_shape)]
        low, high = -min(sizes), min(sizes)
        if mode in (Bounds.ZERO, Bounds.CLIP, Bounds.WRAP):
            low, high = 2 * low, 2 * high
        if self.index_type.kind == "u" or mode is Bounds.UNCHECKED:
            low = 0
        values = [self.rng.randrange(low, high) for _ in range(int(np.prod(self.index_shape)))]
        indices = np.array(values, self.index_type).reshape(self.index_shape)
        slices = spec.result_shape(self.data_shape, self.index_shape)
        if isinstance(self.op, GradientOp):
            return self._compare_sums(module, indices, slices)
        if spec.adds:
            return self._compare_reduction(module, indices, slices)
        data = np.arange(1, 1 + int(np.prod(self.data_shape))).astype(self.dtype).reshape(self.data_shape)
        known = Specification(mode, self.index_type.kind == "u", False, spec)
        seen = outcome(None, module, Arrays(data, indices, np.zeros(slices, self.dtype)), known)
        return self._example(indices, seen) if seen else None

    def _compare_reduction(self, module: ModuleOp, indices: np.ndarray, slices: tuple[int, ...]) -> Example | None:
        data = np.arange(1, 1 + int(np.prod(self.data_shape))).astype(self.dtype).reshape(self.data_shape)
        wanted = reference.run(self.spec, data, indices, self.op.bounds.data)
        out = np.full_like(wanted, 7)
        try:
            interpret(module, data, indices, out)
        except InternalError as error:
            return self._example(indices, f"the interpreter: {error}")
        return None if out.tobytes() == wanted.tobytes() else self._example(indices, "the sums differ")

    def _compare_sums(self, module: ModuleOp, indices: np.ndarray, slices: tuple[int, ...]) -> Example | None:
        assert isinstance(self.op, GradientOp)
        grad = np.arange(1, 1 + int(np.prod(slices))).astype(self.dtype).reshape(slices)
        mode = self.op.bounds.data
        wanted = reference.gradient(self.spec, grad, indices, self.data_shape, mode, self.op.factor)
        out = np.zeros_like(wanted)
        try:
            interpret(module, grad, indices, out)
        except InternalError as error:
            return self._example(indices, f"the interpreter: {error}")
        return None if out.tobytes() == wanted.tobytes() else self._example(indices, "the sums differ")

    def _example(self, indices: np.ndarray, seen: str) -> Example:
        spec: OperatorSpec = self.spec
        texts = [str(ArraySpec(self.data_shape, self.dtype)), str(ArraySpec(self.index_shape, self.index_type))]
        values = tuple(indices.reshape(-1).tolist())
        return Example(spec, self.op.bounds.data, texts[0], texts[1], values, self.index_shape, seen)
