"""Counterexamples: the arrays of a small gather on which a stage goes wrong, and what it does with them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import SSAValue

from ...ir import reference
from ...ir.array_spec import ArraySpec
from ...ir.dialects.types import numpy_dtype
from ...ir.errors import BoundsError, GathernestError, InternalError
from ...ir.interpreters.interpreter import interpret
from ...ir.operator_spec import GatherWeighted, OperatorSpec
from ...ir.semantics import Bounds
from ..nest.queries import functions, view_of
from .conditions.failure import Failure
from .specification import Specification

# The most elements of an array that an example makes; a larger one is described and not run.
MOST_ELEMENTS = 1 << 16
# The most index values that are printed.
MOST_LISTED = 40
# Sizes of all dimensions in an example where the failure depends on none.
USUAL_SIZE = 2
# Sizes of an axis in an example where the failure does not depend on it: enough to tell positions apart.
USUAL_AXIS = 5


@dataclass(frozen=True)
class Example:
    """A small gather that shows a failure.

    Attributes:
        operator: the operator; None where only its nest is known.
        bounds: its bounds mode; None where that is not known.
        data, indices: shape and element type of each, as the command line writes them.
        values: of the indices, in order.
        index_shape: the shape of the indices.
        seen: what the interpreter does with it; empty where the arrays would be too large to make.
        gradient: of a gradient, whose `data` is grad: the shape of data and the scale, for the command line.
    """

    operator: OperatorSpec | None
    bounds: Bounds | None
    data: str
    indices: str
    values: tuple[int, ...]
    index_shape: tuple[int, ...]
    seen: str
    gradient: str = ""

    def __str__(self) -> str:
        listed = ", ".join(map(str, self.values[:MOST_LISTED])) + (", ..." if len(self.values) > MOST_LISTED else "")
        operator = "gather" if self.operator is None else described(self.operator)
        mode = "" if self.bounds is None else f" bounds={self.bounds}"
        what = f"gradient of {operator}{mode}, grad" if self.gradient else f"{operator}{mode} of data"
        first = f"{what} {self.data} by indices {self.indices} = [{listed}]"
        return "\n".join([first, self.seen] if self.seen else [first])

    def command(self, file: str) -> str | None:
        """Return the command that runs a stage in a file on this gather; None where its arrays are not known.

        Nor are there commands for weighted sums.
        """
        if self.operator is None or not self.seen or isinstance(self.operator, GatherWeighted):
            return None
        words = [f"--{name.replace('_', '-')} {value}" for name, value in self.operator.attributes().items()]
        given = str(np.array(self.values).reshape(self.index_shape).tolist()).replace(" ", "")
        kind = self.indices.rpartition("x")[2]
        arrays = f'--data {self.data} --indices "{given}x{kind}" --bounds {self.bounds}'
        name = f"{self.operator.name}_grad {self.gradient}" if self.gradient else self.operator.name
        return " ".join([f"gathernest exec {file} --operator {name}", *words, arrays])


@dataclass(frozen=True)
class Arrays:
    """The arrays of one example."""

    source: np.ndarray
    indices: np.ndarray
    out: np.ndarray


def shapes_of(function: func.FuncOp, sizes: Mapping[str, int]) -> list[tuple[tuple[int, ...], np.dtype]] | None:
    """Return the shapes and dtypes of arrays that a nest's arguments may be handed; None without views."""
    found: list[tuple[tuple[int, ...], np.dtype]] = []
    for argument in function.body.block.args:
        if not isinstance(argument.type, MemRefType):
            continue
        view = view_of(argument, function)
        if view is None:
            return None
        rank = 1 + max((dim for group in view.groups for dim in group), default=-1)
        shape = [1] * rank
        for name, group, static in zip(view.dims, view.groups, argument.type.get_shape(), strict=True):
            size = static if static >= 0 else sizes.get(f"n_{name}", 1)
            if group:
                shape[group[0]] = size
        found.append((tuple(shape), numpy_dtype(argument.type.element_type)))
    return found if len(found) == 3 else None


def make_example(failure: Failure, before: ModuleOp, after: ModuleOp, known: Specification | None) -> Example | None:
    """Return the gather that a failure describes, run before and after a pass; None where no arrays fit."""
    function = functions(after)[0]
    sizes = dict(failure.sizes) or _some_sizes(function)
    if not failure.indices:
        sizes |= {name: max(size, USUAL_AXIS) for name, size in sizes.items() if name.startswith("n_axis")}
    shapes = shapes_of(function, sizes)
    if shapes is None:
        return None
    (source, source_type), (places, index_type), (result, result_type) = shapes
    if known is not None and known.unsigned:
        index_type = np.dtype(f"u{index_type}")
    axis = min((size for name, size in sizes.items() if name.startswith("n_axis")), default=_static_axis(function))
    count = math.prod(places)
    values = list(failure.indices) or [place % max(axis, 1) for place in range(min(count, MOST_ELEMENTS))]
    values = [values[place % len(values)] for place in range(min(count, MOST_ELEMENTS))] if count else []
    operator, mode = (None, None) if known is None else (known.operator, known.mode)
    shape = "x".join(map(str, result))
    more = f"--data-shape {shape} --scale {known.scale}" if known is not None and known.is_gradient else ""
    seen = ""
    if max(map(math.prod, (source, places, result))) <= MOST_ELEMENTS:
        signed = np.dtype(f"i{index_type.itemsize}")
        typed = np.array(values, np.int64).astype(signed).view(index_type).reshape(places)
        values = typed.reshape(-1).tolist()
        adds = known is not None and known.adds
        numbers = _counted(source, source_type) if adds else _numbered(source, source_type)
        arrays = Arrays(numbers, typed, np.zeros(result, result_type))
        seen = outcome(before, after, arrays, known)
    texts = [str(ArraySpec(shape, dtype)) for shape, dtype in ((source, source_type), (places, index_type))]
    return Example(operator, mode, texts[0], texts[1], tuple(values), places, seen, more)


def _some_sizes(function: func.FuncOp) -> dict[str, int]:
    views = [view_of(argument, function) for argument in function.body.block.args]
    return {f"n_{name}": USUAL_SIZE for view in views if view is not None for name in view.dims}


def described(operator: OperatorSpec) -> str:
    """Return an operator with its attributes as text."""
    return " ".join([operator.name, *(f"{name}={value}" for name, value in operator.attributes().items())])


def _static_axis(function: func.FuncOp) -> int:
    data = function.body.block.args[0]
    view = view_of(data, function)
    shape = SSAValue.get(data, type=MemRefType).type.get_shape()
    assert view is not None
    return min(
        (size for name, size in zip(view.dims, shape, strict=True) if name.role == "axis" and size > 0), default=1
    )


def _counted(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Return 1, 2, ... as numbers to add."""
    return np.arange(1, math.prod(shape) + 1).astype(dtype).reshape(tuple(shape))


def _numbered(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    count = math.prod(shape)
    width = dtype.itemsize
    raw = np.arange(1, count + 1, dtype=np.uint64).view(np.uint8).reshape(-1, 8)
    wide = np.zeros((count, max(width, 8)), np.uint8)
    wide[:, :8] = raw
    return np.ascontiguousarray(wide[:, :width]).view(dtype).reshape(tuple(shape))


def outcome(before: ModuleOp | None, after: ModuleOp, arrays: Arrays, known: Specification | None) -> str:
    """Return how a stage differs from the operator, or from the stage before it; empty where it does not."""
    expected = _expected(before, arrays, known)
    for seed in range(4):
        got = _run(after, arrays, seed)
        if isinstance(got, Exception) or isinstance(expected, Exception):
            if type(got) is type(expected):
                continue
            return (
                f"the interpreter: {got}" if isinstance(got, Exception) else f"no fault is found; right is: {expected}"
            )
        different = np.argwhere((_bytes(got) != _bytes(expected)).any(-1))
        if len(different):
            place = tuple(int(number) for number in different[0])
            if known is not None and known.adds:
                return f"the interpreter: out{list(place)} is {got[place]}, and {expected[place]} is right"
            return f"the interpreter: out{list(place)} is {_shown(got, place)}, and {_shown(expected, place)} is right"
    return ""


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8).reshape(*array.shape, array.dtype.itemsize)


def _shown(array: np.ndarray, place: tuple[int, ...]) -> str:
    value = int.from_bytes(_bytes(array)[place].tobytes(), "little")
    return f"element {value - 1} of data" if 0 < value <= MOST_ELEMENTS else f"{value:#x}" if value else "zero"


def _expected(before: ModuleOp | None, arrays: Arrays, known: Specification | None) -> np.ndarray | Exception:
    if known is not None and known.operator is not None:
        try:
            mode = Bounds.ERROR if known.mode is Bounds.UNCHECKED else known.mode
            given = known.operator, arrays.source, arrays.indices
            if known.is_gradient:
                wanted = reference.gradient(*given, arrays.out.shape, mode, known.scale)
            else:
                wanted = reference.run(*given, mode)
            if wanted.shape == arrays.out.shape:
                return wanted
        except BoundsError as error:
            return error
        except GathernestError:
            pass
    return InternalError("nothing to compare with") if before is None else _run(before, arrays, 0)


def _run(module: ModuleOp, arrays: Arrays, seed: int) -> np.ndarray | Exception:
    out = arrays.out.copy()
    out.view(np.uint8)[...] = 0x55
    try:
        interpret(module, arrays.source, arrays.indices, out, seed=seed)
    except (BoundsError, InternalError, ZeroDivisionError, OverflowError) as error:
        return error
    return out
