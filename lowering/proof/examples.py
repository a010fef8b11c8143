"""Small gathers on which a stage goes wrong: those that a failure describes, and samples where nothing is proved."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.passes import ModulePass

from ...ir import reference
from ...ir.array_spec import ArraySpec
from ...ir.dialects.gather_dialect import GradientOp, OperatorOp
from ...ir.dialects.types import numpy_dtype
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
from .specification import Specification

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
    """A small gather that shows a failure.

    Attributes:
        known: the operator; None where nothing is known of it.
        data: the array that is read, grad of a gradient.
        indices: their shape and element type, and `values` the first of them in C order.
        result: the shape of the array that is written.
        seen: what the interpreter does with it; empty where the arrays would be too large to make.
    """

    known: Specification | None
    data: ArraySpec
    indices: ArraySpec
    values: tuple[int, ...]
    result: tuple[int, ...]
    seen: str

    def __str__(self) -> str:
        listed = ", ".join(map(str, self.values[:MAX_LISTED])) + (", ..." if len(self.values) > MAX_LISTED else "")
        operator = None if self.known is None else self.known.operator
        attributes = {} if operator is None else operator.attributes()
        words = [
            "gather" if operator is None else operator.name,
            *(f"{key}={value}" for key, value in attributes.items()),
        ]
        words += [] if self.known is None else [f"bounds={self.known.mode}"]
        words = ["gradient", "of", *words] if self.known is not None and self.known.is_gradient else words
        what = ", grad" if words[0] == "gradient" else " of data"
        first = f"{' '.join(words)}{what} {self.data} by indices {self.indices} = [{listed}]"
        return "\n".join([first, self.seen] if self.seen else [first])

    def command(self, file: str) -> str | None:
        """Return the command that runs a stage in a file on this gather; None where its arrays are not known.

        Nor are there commands for weighted sums.
        """
        known, operator = self.known, None if self.known is None else self.known.operator
        if known is None or operator is None or not self.seen or isinstance(operator, GatherWeighted):
            return None
        given = str(np.array(self.values).reshape(self.indices.shape).tolist()).replace(" ", "")
        kind = str(ArraySpec((), self.indices.dtype))
        shape = "x".join(map(str, self.result))
        words = [
            f"{operator.name}_grad --data-shape {shape} --scale {known.scale}" if known.is_gradient else operator.name
        ]
        words += [f"--{name.replace('_', '-')} {value}" for name, value in operator.attributes().items()]
        arrays = f'--data {self.data} --indices "{given}x{kind}" --bounds {known.mode}'
        return " ".join([f"gathernest exec {file} --operator", *words, arrays])


# Counterexamples


def make_example(failure: Failure, before: ModuleOp, after: ModuleOp, known: Specification | None) -> Example | None:
    """Return the gather that a failure describes, run before and after a pass; None where no arrays fit."""
    function = functions(after)[0]
    views = [view_of(argument, function) for argument in function.body.block.args]
    names = [f"n_{name}" for view in views if view is not None for name in view.dims]
    sizes = dict(failure.sizes) or dict.fromkeys(names, USUAL_SIZE)
    if not failure.indices:
        sizes |= {name: max(size, USUAL_AXIS) for name, size in sizes.items() if name.startswith("n_axis")}
    static: dict[str, int] = {}
    shapes = _shapes_of(function, sizes, static)
    if len(shapes) != 3:
        return None
    (source, source_type), (places, index_type), (result, result_type) = shapes
    index_type = np.dtype(f"{'u' if known is not None and known.unsigned else 'i'}{index_type.itemsize}")
    axes = [size for name, size in (sizes | static).items() if name.startswith("n_axis")]
    values = np.array(failure.indices or range(max(min(axes, default=1), 1)), object)
    count = min(math.prod(places), MAX_ELEMENTS)
    raw = np.resize(values, count).astype(np.int64).astype(f"i{index_type.itemsize}").view(index_type)
    if max(map(math.prod, (source, places, result))) > MAX_ELEMENTS:
        specs = ArraySpec(source, source_type), ArraySpec(places, index_type)
        return Example(known, *specs, tuple(raw.tolist()), result, "")
    data = _counted(source, source_type) if known is not None and known.adds else _numbered(source, source_type)
    indices = raw.reshape(places)
    seen = _outcome(before, after, data, indices, np.zeros(result, result_type), known)
    return Example(known, ArraySpec.of(data), ArraySpec.of(indices), tuple(raw.tolist()), result, seen)


def _shapes_of(
    function: func.FuncOp, sizes: Mapping[str, int], static: dict[str, int]
) -> list[tuple[tuple[int, ...], np.dtype]]:
    """Return the shapes and dtypes of arrays that a nest's arguments may be handed, and add their `static` sizes."""
    found: list[tuple[tuple[int, ...], np.dtype]] = []
    for argument in function.body.block.args:
        view = view_of(argument, function)
        if not isinstance(argument.type, MemRefType) or view is None:
            continue
        shape = [1] * (1 + max((dim for group in view.groups for dim in group), default=-1))
        for name, group, size in zip(view.dims, view.groups, argument.type.get_shape(), strict=True):
            static |= {f"n_{name}": size} if size >= 0 else {}
            if group:
                shape[group[0]] = size if size >= 0 else sizes.get(f"n_{name}", 1)
        found.append((tuple(shape), numpy_dtype(argument.type.element_type)))
    return found


def _counted(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Return 1, 2, ... as numbers to add."""
    return np.arange(1, math.prod(shape) + 1).astype(dtype).reshape(tuple(shape))


def _numbered(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Return elements whose first bytes are 1, 2, ..."""
    wide = np.zeros((math.prod(shape), max(dtype.itemsize, 8)), np.uint8)
    wide[:, :8] = np.arange(1, len(wide) + 1, dtype=np.uint64).view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(wide[:, : dtype.itemsize]).view(dtype).reshape(tuple(shape))


def _outcome(
    before: ModuleOp | None,
    after: ModuleOp,
    data: np.ndarray,
    indices: np.ndarray,
    out: np.ndarray,
    known: Specification | None,
    *,
    seeds: int = 4,
) -> str:
    """Return how a stage differs from the operator, or from the stage before it; empty where it does not."""
    expected = _expected(before, data, indices, out, known)
    for seed in range(seeds):
        got = _run(after, data, indices, out, seed)
        if isinstance(got, Exception) or isinstance(expected, Exception):
            if type(got) is type(expected):
                continue
            return (
                f"the interpreter: {got}" if isinstance(got, Exception) else f"no fault is found; right is: {expected}"
            )
        different = np.argwhere((_bytes(got) != _bytes(expected)).any(-1))
        if len(different):
            place, shown = tuple(map(int, different[0])), str if known is not None and known.adds else _shown
            return f"the interpreter: out{list(place)} is {shown(got[place])}, and {shown(expected[place])} is right"
    return ""


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.dtype.itemsize)


def _shown(element: np.generic) -> str:
    value = int.from_bytes(element.tobytes(), "little")
    return f"element {value - 1} of data" if 0 < value <= MAX_ELEMENTS else f"{value:#x}" if value else "zero"


def _expected(
    before: ModuleOp | None, data: np.ndarray, indices: np.ndarray, out: np.ndarray, known: Specification | None
) -> np.ndarray | Exception:
    """Return what the operator's reference gives; where it does not apply, what the stage before gives."""
    if known is not None and known.operator is not None:
        mode = Bounds.ERROR if known.mode is Bounds.UNCHECKED else known.mode
        try:
            if known.is_gradient:
                wanted = reference.gradient(known.operator, data, indices, out.shape, mode, known.scale)
            else:
                wanted = reference.run(known.operator, data, indices, mode)
            if wanted.shape == out.shape:
                return wanted
        except BoundsError as error:
            return error
        except GathernestError:
            pass
    return InternalError("nothing to compare with") if before is None else _run(before, data, indices, out, 0)


def _run(module: ModuleOp, data: np.ndarray, indices: np.ndarray, out: np.ndarray, seed: int) -> np.ndarray | Exception:
    out = out.copy()
    out.view(np.uint8)[...] = 0x55
    try:
        interpret(module, data, indices, out, seed=seed)
    except (BoundsError, InternalError, ZeroDivisionError, OverflowError) as error:
        return error
    return out


# Samples


def sampled(start: ModuleOp, passes: Sequence[ModulePass], context: Context) -> tuple[int, Example | None]:
    """Interpret what passes make of other sizes of an operator; return how many were right, and one that is not.

    None are tried where the module does not begin with an operator on tensors, or holds its indices as constants.
    """
    operators = [op for op in start.walk() if isinstance(op, OperatorOp)]
    constants = [op for op in start.walk() if op.name == "arith.constant"]
    if len(operators) != 1 or not isinstance(operators[0].operands[0].type, TensorType) or constants:
        return 0, None
    (operator,), rng, right = operators, random.Random(7), 0
    for _ in range(SAMPLES):
        problem, indices = _sample(operator, rng)
        data, out = (
            _counted(problem.source.shape, problem.source.dtype),
            np.zeros(problem.result.shape, problem.result.dtype),
        )
        try:
            arrays = problem.table, problem.indices
            module = operator_module(problem.operator, *arrays, bounds=problem.bounds, gradient=problem.gradient)
            for step in passes:
                step.apply(context, module)
            bind_arguments(find_function(module, "gather"), [data, indices, out])
        except GathernestError:
            continue
        scale, is_unsigned = 1.0 if problem.gradient is None else problem.gradient.scale, indices.dtype.kind == "u"
        known = Specification(problem.bounds, is_unsigned, problem.gradient is not None, problem.operator, scale)
        seeds = 1 if problem.adds or problem.reduces else 4
        if seen := _outcome(None, module, data, indices, out, known, seeds=seeds):
            values = tuple(indices.reshape(-1).tolist())
            return right, Example(known, problem.source, problem.indices, values, problem.result.shape, seen)
        right += 1
    return right, None


def _sample(op: OperatorOp, rng: random.Random) -> tuple[Problem, np.ndarray]:
    """Return an operator with other sizes, and indices for it."""
    (old_data, old_indices), spec, mode = op.shapes(), op.normalized(), op.bounds.data
    data = [rng.choice(SAMPLE_SIZES[1:]) for _ in old_data]
    if spec.adds:
        data[1:] = old_data[1:]  # the size of a row may be part of the code
    shared = getattr(spec, "batch_dims", 0)
    places = [*data[:shared], *(rng.choice(SAMPLE_SIZES) for _ in old_indices[shared:])]
    if isinstance(spec, GatherElements):
        places = [places[dim] if dim == spec.axis else data[dim] for dim in range(len(places))]
    elif isinstance(spec, GatherNd):
        places[-1] = old_indices[-1]
    table, index_type = (numpy_dtype(getattr(value.type, "element_type")) for value in (op.table, op.indices))  # noqa: B009
    gradient = Gradient(op.factor) if isinstance(op, GradientOp) else None
    arrays = ArraySpec(data, table), ArraySpec(places, index_type)
    problem = Problem.checked(spec, *arrays, mode, gradient=gradient)
    size = min(problem.axis_sizes)
    reach = 2 if mode in (Bounds.ZERO, Bounds.CLIP, Bounds.WRAP) else 1
    low = 0 if index_type.kind == "u" or mode is Bounds.UNCHECKED else -size * reach
    values = [rng.randrange(low, size * reach) for _ in range(math.prod(places))]
    return problem, np.array(values, index_type).reshape(places)
