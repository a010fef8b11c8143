"""The module of a model, built node by node: what every importer does the same."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation

from ..dialects.attributes import DIMS, NAME, NODE
from ..dialects.graph_op import GraphOp, shape_of_value, tensor_of, tensor_type
from ..dialects.graph_ops import CastOp, ConcatOp, SqueezeOp, UnsqueezeOp, check_castable
from ..dialects.types import ir_element_type, numpy_dtype
from ..errors import BoundsError, InvalidGatherError, ModelError
from ..modules.known_values import Constants, constant_op
from ..modules.operator_module import OPERATIONS
from ..modules.weights import Weights
from ..operator_spec import OperatorSpec, gathered_shape
from ..semantics import DYNAMIC, Bounds
from .file_limits import FileLimits

# A value's name is printed at each of its uses: long ones would make a text of many times the size of the file.
MOST_HINT = 64
NO_WORD = re.compile(r"^(?=\d)|\W", re.ASCII)
NUMBERS_AT_END = re.compile(r"(_\d+)+$")


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """A model as a module, the values of its weights, what is known of the module's values, and the limits it has."""

    module: ModuleOp
    weights: Weights
    known: dict[SSAValue, np.ndarray | None] = field(default_factory=dict)
    limits: FileLimits = field(default_factory=FileLimits)

    def snapshot(self) -> Callable[[], ModuleOp]:
        """Return what makes the module as it is now, whatever passes do to it; takes an eighth of a clone's time."""
        (function,) = self.module.ops
        block = function.regions[0].block
        hints = [argument.name_hint for argument in block.args]
        as_read = [
            (op, [*op.operands], {**op.properties}, [value.name_hint for value in op.results]) for op in block.ops
        ]

        def made() -> ModuleOp:
            copied, again = function.clone_without_regions(), Block(arg_types=block.arg_types)
            copied.regions[0].add_block(again)
            values: dict[SSAValue, SSAValue] = dict(zip(block.args, again.args, strict=True))
            for argument, hint in zip(again.args, hints, strict=True):
                argument.name_hint = hint
            for op, operands, properties, names in as_read:
                new = op.clone_without_regions(values, clone_operands=False)
                new.operands, new.properties = [values[operand] for operand in operands], {**properties}
                for value, hint in zip(new.results, names, strict=True):
                    value.name_hint = hint
                again.add_op(new)
            return ModuleOp([copied])

        return made


class GraphBuilder:
    """Collects arguments, operations and results of `@main`."""

    def __init__(self, limits: FileLimits):
        self.limits = limits
        self.weights = Weights(limits.max_total_bytes)
        self.constants = Constants(self.weights)
        self._block = Block()
        self._arguments: list[DictionaryAttr] = []
        self._results: list[tuple[SSAValue, DictionaryAttr]] = []
        self._allowed: dict[int, Attribute] = {}
        self._replaced: list[Operation] = []
        self.node = self.kind = ""

    @contextmanager
    def naming_nodes(self) -> Iterator[None]:
        """Name `node` and its `kind`, which the body sets for every node, in every error."""
        try:
            yield
        except (BoundsError, ModelError, InvalidGatherError) as error:
            kind = BoundsError if isinstance(error, BoundsError) else ModelError
            raise kind(f"node {self.node!r} ({self.kind}): {error}") from None

    def argument(self, name: str, dtype: np.dtype, shape: Sequence[int], dims: Sequence[str] = ()) -> SSAValue:
        """Add an argument.

        Args:
            name: its name in the model.
            dtype: of its elements.
            shape: sizes, `DYNAMIC` where they are not known.
            dims: the names of the sizes, empty where they have none.
        """
        self.limits.check_shape(f"input {name!r}", shape, dtype)
        value = self._block.insert_arg(TensorType(ir_element_type(dtype), list(shape)), len(self._block.args))
        self._hint(value, name)
        self._arguments.append(_named(name, dims))
        return value

    def constant(self, name: str, array: np.ndarray) -> SSAValue:
        """Add a constant: dense where it is a few integers, a weight of that name otherwise."""
        self.limits.check_shape(f"constant {name!r}", array.shape, array.dtype)
        return self._insert(constant_op(array, self.weights, name), name)

    def gather(
        self, operator: OperatorSpec, data: SSAValue, indices: SSAValue, bounds: Bounds, version: str, name: str
    ) -> SSAValue:
        """Add a gather with its attributes as the model writes them.

        Raises:
            InvalidGatherError: they do not fit the shapes.
        """
        if numpy_dtype(tensor_type(indices).element_type).kind not in "iu":
            raise ModelError(f"indices must be integers, got {indices.type}")
        shape = gathered_shape(operator, shape_of_value(data), shape_of_value(indices))
        type_ = tensor_of(tensor_type(data).element_type, shape)
        kind = OPERATIONS[operator.name]
        op = kind(data, indices, bounds=bounds, version=version, result_type=type_, integers=operator.attributes())
        return self._insert(op, name)

    def shape_operator(
        self, kind: type[GraphOp], inputs: Sequence[SSAValue], name: str, dtype: np.dtype | None = None, **fields: Any
    ) -> SSAValue:
        """Add an operation of the `graph` dialect; `dtype` is of its result where it is not the first input's.

        Raises:
            ModelError: the inputs and the fields do not fit.
        """
        element = None if dtype is None else ir_element_type(dtype)
        return self._insert(kind.inferred(inputs, self.constants.known, element, **fields), name)

    def cast(self, value: SSAValue, dtype: np.dtype, name: str) -> SSAValue:
        """Add a cast where elements are not of that dtype yet; raises ModelError for those that are not converted."""
        given = numpy_dtype(tensor_type(value).element_type)
        if given == dtype:
            return value
        check_castable(given)
        check_castable(dtype)
        return self.shape_operator(CastOp, [value], name, dtype)

    def squeeze(self, value: SSAValue, axes: Sequence[int] | None, name: str) -> SSAValue:
        """Leave out dimensions of size 1, all where `axes` is None; raises ModelError for axes that do not fit."""
        shape = shape_of_value(value)
        if axes is None:
            if DYNAMIC in shape:
                raise ModelError(f"without axes, the sizes must be known to see which are 1, got {value.type}")
            axes = [axis for axis, size in enumerate(shape) if size == 1]
        return self.shape_operator(SqueezeOp, [value], name, axes=normal_axes(axes, len(shape)))

    def unsqueeze(self, value: SSAValue, axes: Sequence[int], name: str) -> SSAValue:
        """Put in dimensions of size 1; raises ModelError for axes that do not fit."""
        rank = len(shape_of_value(value)) + len(axes)
        return self.shape_operator(UnsqueezeOp, [value], name, axes=normal_axes(axes, rank))

    def concat(self, values: Sequence[SSAValue], axis: int, name: str) -> SSAValue:
        """Put tensors one after the other; raises ModelError for an axis, or shapes, that do not fit."""
        (axis,) = normal_axes([axis], len(shape_of_value(values[0])))
        return self.shape_operator(ConcatOp, values, name, axis=axis)

    def known_integers(self, value: SSAValue, what: str) -> list[int]:
        """Return the elements of an integer tensor that is known before the model runs.

        Raises:
            ModelError: it is not.
        """
        known = self.constants.known(value)
        if known is None or None in known.flat:
            raise ModelError(f"{what} must be known before the model runs: a constant, or computed from constants")
        return [int(element) for element in known.flat]

    def dtype(self, value: SSAValue) -> np.dtype:
        """Return the dtype of a tensor's elements."""
        return numpy_dtype(tensor_type(value).element_type)

    def replaced(self, op: Operation) -> None:
        """Leave out an operation that another stands for, unless others read its result."""
        self._replaced.append(op)

    def result(self, name: str, value: SSAValue, dims: Sequence[str] = ()) -> None:
        """Add a result."""
        self._results.append((value, _named(name, dims)))

    def finish(self) -> ImportedModel:
        """Return the module; the passes that every model goes through verify it."""
        values = [value for value, _ in self._results]
        self._block.add_op(func.ReturnOp(*values))
        for op in dict.fromkeys(self._replaced):
            if not any(result.uses for result in op.results):
                self._block.erase_op(op)
        signature = FunctionType.from_lists(self._block.arg_types, [value.type for value in values])
        function = func.FuncOp(
            "main",
            signature,
            Region(self._block),
            arg_attrs=ArrayAttr(self._arguments),
            res_attrs=ArrayAttr([attributes for _, attributes in self._results]),
        )
        return ImportedModel(ModuleOp([function]), self.weights, self.constants.answers, self.limits)

    def _insert(self, op: IRDLOperation, name: str) -> SSAValue:
        (result,) = op.results
        kind = tensor_type(result)
        if self._allowed.get(id(kind)) is not kind:  # the nodes of a model share their types
            self.limits.check_shape(f"value {name!r}", kind.get_shape(), numpy_dtype(kind.element_type))
            self._allowed[id(kind)] = kind
        if self.kind:
            op.attributes[NODE] = StringAttr(self.node)
        self._block.add_op(op)
        self._hint(result, name)
        if op.operands:  # asked in the order of the graph, so that no answer needs a deep stack
            self.constants.known(result)
        return result

    @staticmethod
    def _hint(value: SSAValue, name: str) -> None:
        """Let a value print under its name in the model, without the numbers at its end: the printer adds its own."""
        word = name[:MOST_HINT]
        if not (word.isascii() and word.isidentifier()):
            word = NO_WORD.sub("_", word)
        if word[-1:].isdecimal():
            word = NUMBERS_AT_END.sub("", word)
        if word.strip("_"):
            value.name_hint = word


def _named(name: str, dims: Sequence[str]) -> DictionaryAttr:
    entries: dict[str, Attribute] = {NAME: StringAttr(name)}
    if any(dims):
        entries[DIMS] = ArrayAttr([StringAttr(dim) for dim in dims])
    return DictionaryAttr(entries)


def unsupported(found: Mapping[str, Sequence[str]], supported: str) -> ModelError:
    """Return the error that names every operator that is not supported.

    Args:
        found: the operators, each with the nodes that have it.
        supported: what is supported, as text.
    """
    most_first = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    shown = [
        f"{operator} ({len(nodes)} node{'s, first' * (len(nodes) > 1)} {nodes[0]!r})" for operator, nodes in most_first
    ]
    return ModelError(f"operators that are not supported: {', '.join(shown)}; supported are {supported}")


def lookup(values: Mapping[str, SSAValue], name: str, what: str) -> SSAValue:
    """Return a value of the model by name; raises ModelError where nothing has defined it yet."""
    if name not in values:
        raise ModelError(
            f"{what} {name!r} is not defined before it is used; the model is damaged, or its nodes are in no order "
            "or in a cycle"
        )
    return values[name]


def normal_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return axes as non-negative numbers in ascending order; raises ModelError where one is out of range."""
    for axis in axes:
        if not -rank <= axis < rank:
            raise ModelError(f"axis {axis} is out of range [{-rank}, {rank - 1}] for rank {rank}")
    return tuple(sorted(axis % rank for axis in axes))
