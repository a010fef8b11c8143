"""Small gathers on which a stage goes wrong: examples of a failure, and samples where nothing is proved."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.passes import ModulePass

from ...ir import reference
from ...ir.array_spec import ArraySpec
from ...ir.dialects.gather_dialect import OperatorOp
from ...ir.dialects.types import numpy_dtype
from ...ir.element_types import first_difference
from ...ir.errors import BoundsError, GathernestError, InternalError
from ...ir.interpreters.argument_views import bind_arguments
from ...ir.interpreters.interpreter import interpret
from ...ir.modules.context import find_function
from ...ir.modules.operator_module import operator_module
from ...ir.operator_spec import GatherElements, GatherNd, GatherWeighted, Gradient
from ...ir.problem import Problem
from ...ir.semantics import Bounds
from ..nest.queries import functions, view_of
from .conditions import Failure
from .specification import Specification, specification_of

# The most elements of an array that an example makes; a larger one is described and not run.
MAX_ELEMENTS = 1 << 16
# The most index values that are printed.
MAX_LISTED = 40
# Sizes of a dimension, and of an axis, in an example whose failure does not depend on them.
USUAL_SIZE, USUAL_AXIS = 2, 5
# The number of gathers that are interpreted for one pass, and their sizes: none, one, and on both sides of tiles.
SAMPLES, SAMPLE_SIZES = 12, (0, 1, 2, 3, 5, 7, 9, 17)


@dataclass(frozen=True)
class Example:
    """A small gather that shows a failure."""

    known: Specification
    data: ArraySpec  # the array that is read; grad for a gradient
    indices: ArraySpec
    values: tuple[int, ...]  # the first of the indices in C order
    result: tuple[int, ...]  # the shape of the array that is written
    seen: str  # the interpreter's result; empty where the arrays would be too large to make

    def __str__(self) -> str:
        listed = ", ".join(map(str, self.values[:MAX_LISTED])) + (", ..." if len(self.values) > MAX_LISTED else "")
        operator, is_gradient = self.known.operator, self.known.is_gradient
        attributes = {} if operator is None else operator.attributes()
        words = [
            "gather" if operator is None else operator.name,
            *(f"{key}={value}" for key, value in attributes.items()),
        ]
        what = " ".join([*["gradient of"] * is_gradient, *words, f"bounds={self.known.mode}"])
        source = f"{', grad' if is_gradient else ' of data'} {self.data}"
        return f"{what}{source} by indices {self.indices} = [{listed}]" + (f"\n{self.seen}" if self.seen else "")

    def command(self, file: str) -> str | None:
        """Return the command that runs a stage in a file on this gather.

        None where its arrays are not known, and for weighted sums.
        """
        operator, known = self.known.operator, self.known
        if operator is None or not self.seen or isinstance(operator, GatherWeighted):
            return None
        given = str(np.array(self.values).reshape(self.indices.shape).tolist()).replace(" ", "")
        more = (
            f"_grad --data-shape {'x'.join(map(str, self.result))} --scale {known.scale}" if known.is_gradient else ""
        )
        words = [f"--{name.replace('_', '-')} {value}" for name, value in operator.attributes().items()]
        arrays = f'--data {self.data} --indices "{given}x{ArraySpec((), self.indices.dtype)}" --bounds {known.mode}'
        return " ".join([f"gathernest exec {file} --operator {operator.name}{more}", *words, arrays])


def make_example(failure: Failure, before: ModuleOp, after: ModuleOp, known: Specification) -> Example | None:
    """Return the gather that a failure describes, run before and after a pass; None where no arrays fit."""
    function, specs, axes = functions(after)[0], list[ArraySpec](), list[int]()
    for argument in function.body.block.args:
        view = view_of(argument, function)
        if not isinstance(argument.type, MemRefType) or view is None:
            continue
        shape = [1] * (1 + max((dim for group in view.groups for dim in group), default=-1))
        for name, group, size in zip(view.dims, view.groups, argument.type.get_shape(), strict=True):
            if size < 0:
                size = failure.sizes.get(f"n_{name}", 1 if failure.sizes else USUAL_SIZE)
                size = size if failure.indices or name.role != "axis" else max(size, USUAL_AXIS)
            axes += [size] if name.role == "axis" else []
            for dim in group[:1]:
                shape[dim] = size
        specs.append(ArraySpec(shape, numpy_dtype(argument.type.element_type)))
    if len(specs) != 3:
        return None
    source, places, result = specs
    signed = np.dtype(f"i{places.dtype.itemsize}")
    indices = ArraySpec(places.shape, f"u{signed.itemsize}" if known.unsigned else signed)
    values = np.array(failure.indices or range(max(min(axes, default=1), 1)), np.int64)
    values = np.resize(values, min(indices.size, MAX_ELEMENTS)).astype(signed).view(indices.dtype)
    seen = ""
    if max(source.size, indices.size, result.size) <= MAX_ELEMENTS:
        data = np.arange(1, source.size + 1)  # as numbers to add, or as the first bytes of elements
        if known.adds:
            data = data.astype(source.dtype)
        else:
            raw = np.zeros((source.size, max(source.dtype.itemsize, 8)), np.uint8)
            raw[:, :8] = data.astype(np.uint64).view(np.uint8).reshape(-1, 8)
            data = np.ascontiguousarray(raw[:, : source.dtype.itemsize]).view(source.dtype)
        arrays = data.reshape(source.shape), values.reshape(indices.shape), np.zeros(result.shape, result.dtype)
        seen = _describe_difference(before, after, arrays, known)
    return Example(known, source, indices, tuple(values.tolist()), result.shape, seen)


Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def _describe_difference(
    before: ModuleOp | None, after: ModuleOp, arrays: Arrays, known: Specification, seeds: int = 4
) -> str:
    """Return how a stage differs from the operator, or from the stage before it; empty where it does not."""
    expected = _compute_expected(before, arrays, known)
    for got in (_run_stage(after, arrays, seed) for seed in range(seeds)):
        if isinstance(got, Exception) or isinstance(expected, Exception):
            if type(got) is not type(expected):
                is_fault = isinstance(got, Exception)
                return f"the interpreter: {got}" if is_fault else f"no fault is found; expected: {expected}"
        elif (found := first_difference(got, expected)) is not None:
            (place, _), shown = found, str if known.adds else _format_element
            return f"the interpreter: out{list(place)} is {shown(got[place])}, and {shown(expected[place])} is right"
    return ""


def _format_element(element: np.generic) -> str:
    value = int.from_bytes(element.tobytes(), "little")
    return f"element {value - 1} of data" if 0 < value <= MAX_ELEMENTS else f"{value:#x}" if value else "zero"


def _compute_expected(before: ModuleOp | None, arrays: Arrays, known: Specification) -> np.ndarray | Exception:
    """Return the result of the operator's reference, or of the stage before where no reference applies."""
    data, indices, out = arrays
    mode = Bounds.ERROR if known.mode is Bounds.UNCHECKED else known.mode
    wanted: np.ndarray | None = None
    try:
        if known.operator is not None and known.is_gradient:
            wanted = reference.gradient(known.operator, data, indices, out.shape, mode, known.scale)
        elif known.operator is not None:
            wanted = reference.run(known.operator, data, indices, mode)
    except BoundsError as error:
        return error
    except GathernestError:
        pass
    if wanted is not None and wanted.shape == out.shape:
        return wanted
    return InternalError("nothing to compare with") if before is None else _run_stage(before, arrays, 0)


def _run_stage(module: ModuleOp, arrays: Arrays, seed: int) -> np.ndarray | Exception:
    data, indices, out = arrays[0], arrays[1], arrays[2].copy()
    out.view(np.uint8)[...] = 0x55
    try:
        interpret(module, data, indices, out, seed=seed)
    except (BoundsError, InternalError, ZeroDivisionError, OverflowError) as error:
        return error
    return out


def run_samples(start: ModuleOp, passes: Sequence[ModulePass], context: Context) -> tuple[int, Example | None]:
    """Interpret the passes' output for other sizes of an operator; return the number of right ones, and a wrong one.

    None are tried where the module does not begin with an operator on tensors, or holds its indices as constants.
    """
    operators = [op for op in start.walk() if isinstance(op, OperatorOp)]
    constants = [op for op in start.walk() if op.name == "arith.constant"]
    if len(operators) != 1 or not isinstance(operators[0].source.type, TensorType) or constants:
        return 0, None
    (operator,), known, rng, right = operators, specification_of(start), random.Random(7), 0
    assert known is not None
    for _ in range(SAMPLES):
        problem, indices = _draw_sample(operator, known, rng)
        data = np.arange(1, problem.source.size + 1).astype(problem.source.dtype).reshape(problem.source.shape)
        arrays = data, indices, np.zeros(problem.result.shape, problem.result.dtype)
        try:
            specs = problem.table, problem.indices
            module = operator_module(problem.operator, *specs, bounds=problem.bounds, gradient=problem.gradient)
            for step in passes:
                step.apply(context, module)
            bind_arguments(find_function(module, "gather"), arrays)
        except GathernestError:
            continue
        if seen := _describe_difference(None, module, arrays, known, 1 if known.adds else 4):
            values = tuple(indices.reshape(-1).tolist())
            return right, Example(known, problem.source, problem.indices, values, problem.result.shape, seen)
        right += 1
    return right, None


def _draw_sample(op: OperatorOp, known: Specification, rng: random.Random) -> tuple[Problem, np.ndarray]:
    """Return an operator with other sizes, and indices for it."""
    (old_data, old_indices), spec, mode = op.shapes(), op.normalized(), known.mode
    data = [rng.choice(SAMPLE_SIZES[1:]) for _ in old_data]
    if spec.adds:
        data[1:] = old_data[1:]  # the size of a row may be part of the code
    shared = getattr(spec, "batch_dims", 0)
    places = [*data[:shared], *(rng.choice(SAMPLE_SIZES) for _ in old_indices[shared:])]
    if isinstance(spec, GatherElements):
        places = [places[dim] if dim == spec.axis else data[dim] for dim in range(len(places))]
    elif isinstance(spec, GatherNd):
        places[-1] = old_indices[-1]
    types = [
        numpy_dtype(value.type.element_type) for value in (op.table, op.indices) if isinstance(value.type, TensorType)
    ]
    gradient = Gradient(known.scale) if known.is_gradient else None
    table, indices = (ArraySpec(shape, dtype) for shape, dtype in zip((data, places), types, strict=True))
    problem = Problem.checked(spec, table, indices, mode, gradient=gradient)
    size = min(problem.axis_sizes) * (2 if mode in (Bounds.ZERO, Bounds.CLIP, Bounds.WRAP) else 1)
    low = 0 if known.unsigned or mode is Bounds.UNCHECKED else -size
    values = [rng.randrange(low, size) for _ in range(indices.size)]
    return problem, np.array(values, indices.dtype).reshape(places)
