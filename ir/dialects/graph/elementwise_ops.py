"""Operations that compute with elements: `graph.elementwise`, `graph.reduce`, `graph.cumsum` and `graph.range`."""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from ...element_types import element_type_name
from ...errors import ModelError
from ...semantics import DYNAMIC, Shape
from ..graph_op import Fields, Known, shape_of_value, tensor_type
from ..types import numpy_dtype
from .functions import FUNCTIONS, REDUCTIONS, Function, Rule, evaluate
from .sized_op import Elements, SizedOp, broadcast_shapes

INTEGERS = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
FLOATS = ("float16", "bfloat16", "float32", "float64")


def element_dtypes(values: Sequence[SSAValue]) -> list[np.dtype]:
    """Return the dtypes of tensors' elements."""
    return [numpy_dtype(tensor_type(value).element_type) for value in values]


@irdl_op_definition
class ElementwiseOp(SizedOp):
    """A function of the elements of operands that broadcast as in NumPy; `FUNCTIONS` has the functions.

    ```
    %y = graph.elementwise %a, %b function "add" : tensor<?x4xf32>, tensor<4xf32> -> tensor<?x4xf32>
    %m = graph.elementwise %i, %n function "less" : tensor<?xi64>, tensor<i64> -> tensor<?xi1>
    %z = graph.elementwise %m, %a, %b function "select" : tensor<?xi1>, tensor<?xf32>, tensor<f32> -> tensor<?xf32>
    ```
    """

    name = "graph.elementwise"
    OPERANDS: ClassVar = None
    KEEPS_ELEMENT_TYPE: ClassVar = False

    function = prop_def(StringAttr)

    def verify_(self) -> None:
        super().verify_()
        wanted, (got,) = self.result_dtype(self.inputs, self.fields()), element_dtypes([self.result])
        if got != wanted:
            raise VerifyException(f"{self.name}: expected a result of {element_type_name(wanted)}, got {got}")

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        cls.result_dtype(inputs, fields)
        return super().infer_shape(inputs, fields, known)

    @classmethod
    def result_dtype(cls, inputs: Sequence[SSAValue], fields: Fields) -> np.dtype:
        """Return the dtype of the result; raises ModelError for operands that the function does not take."""
        function = FUNCTIONS.get(fields["function"])
        if function is None:
            raise ModelError(f"there is no function {fields['function']!r}; there are {', '.join(FUNCTIONS)}")
        if len(inputs) != function.operands:
            raise ModelError(f"{function.name} has {function.operands} operands, got {len(inputs)}")
        return _checked_dtype(function, element_dtypes(inputs))

    @classmethod
    def sizes(cls, fields: Fields, shapes: Sequence[Shape], elements: Elements) -> Shape:
        return broadcast_shapes(shapes)

    @classmethod
    def evaluate(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
        return evaluate(fields["function"], arrays, dtype)

    def carried(self, operands: Sequence[np.ndarray]) -> np.ndarray | None:
        wide = np.broadcast_arrays(*operands)
        entries = list(zip(*(part.flat for part in wide), strict=True))
        result = np.empty(wide[0].shape, object)
        if FUNCTIONS[self.function.data].rule is Rule.CHOICE:
            chosen = [None if which is None else (first if which else second) for which, first, second in entries]
            result[...] = np.array([*chosen, None], object)[:-1].reshape(result.shape)
            return result
        unknown = np.array([None in entry for entry in entries], bool).reshape(result.shape)
        arrays: list[np.ndarray] = []
        for part, dtype in zip(wide, element_dtypes(self.inputs), strict=True):
            known = part.copy()
            known[unknown] = 1
            arrays.append(known.astype(dtype))
        result[...] = evaluate(self.function.data, arrays, self.result_dtype(self.inputs, self.fields()))
        result[unknown] = None
        return result


def check_integers(inputs: Sequence[SSAValue], rule: str) -> None:
    """Raise ModelError, by a rule, for operands that are not integers of one type."""
    dtypes = element_dtypes(inputs)
    if dtypes[0].name not in INTEGERS or len(set(dtypes)) > 1:
        raise ModelError(f"{rule}, got {', '.join(map(element_type_name, dtypes))}")


def _checked_dtype(function: Function, given: Sequence[np.dtype]) -> np.dtype:
    """Return the dtype of a function's result; raises ModelError for operands of other types than it takes."""
    allowed = {
        Rule.ARITHMETIC: (*INTEGERS, *FLOATS),
        Rule.COMPARISON: ("bool", *INTEGERS, *FLOATS),
        Rule.LOGIC: ("bool",),
        Rule.BITS: ("bool", *INTEGERS),
        Rule.CHOICE: (),
    }[function.rule]
    checked = given
    if function.rule is Rule.CHOICE:
        checked = given[1:]
        if given[0].name != "bool":
            raise ModelError(f"{function.name} chooses by booleans, got {element_type_name(given[0])}")
    for dtype in checked:
        if allowed and dtype.name not in allowed:
            raise ModelError(f"{function.name} is of {', '.join(allowed)}, got {element_type_name(dtype)}")
    if len(set(checked)) > 1:
        raise ModelError(f"{function.name} is of one type, got {' and '.join(map(element_type_name, checked))}")
    return np.dtype(bool) if function.rule in (Rule.COMPARISON, Rule.LOGIC) else checked[0]


# Whose least and largest number ONNX, ONNX Runtime 1.32 and OpenVINO 2026.4 all give for no elements. Of float32,
# float64 and int64 OpenVINO gives those of finite float32 and of int32; ONNX Runtime rejects bool.
OF_NOTHING = ("float16", "int8", "uint8", "int32")


@irdl_op_definition
class ReduceOp(SizedOp):
    """The sum, product, minimum or maximum of elements along axes, which `keep` leaves with size 1.

    Sums and products are of integers: those of floats depend on the order, which no format says.

    ```
    %n = graph.reduce %sizes function "product" axes [0] : tensor<3xi64> -> tensor<i64>
    ```
    """

    name = "graph.reduce"

    function = prop_def(StringAttr)
    axes = prop_def(DenseArrayBase)
    keep = opt_prop_def(UnitAttr)

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        name, (dtype,) = fields["function"], element_dtypes(inputs[:1])
        if name not in REDUCTIONS:
            raise ModelError(f"there is no reduction {name!r}; there are {', '.join(REDUCTIONS)}")
        allowed = INTEGERS if name in ("sum", "product") else ("bool", *INTEGERS, *FLOATS)
        if dtype.name not in allowed:
            why = "; that of floats depends on their order, so gathernest split leaves it to ONNX Runtime" * (
                dtype.name in FLOATS
            )
            raise ModelError(f"a {name} is of {', '.join(allowed)}, got {element_type_name(dtype)}{why}")
        shape = super().infer_shape(inputs, fields, known)
        if REDUCTIONS[name][0].identity is None and 0 not in shape and 0 in shape_of_value(inputs[0]):
            _of_nothing(name, dtype)
        return shape

    @classmethod
    def sizes(cls, fields: Fields, shapes: Sequence[Shape], elements: Elements) -> Shape:
        axes, shape = fields["axes"], shapes[0]
        if len({*axes}) != len(axes) or not all(0 <= axis < len(shape) for axis in axes):
            raise ModelError(f"axes {list(axes)} are no distinct dimensions of rank {len(shape)}")
        sizes = [1 if axis in axes else size for axis, size in enumerate(shape)]
        return tuple(size for axis, size in enumerate(sizes) if fields["keep"] or axis not in axes)

    @classmethod
    def evaluate(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
        ufunc, axes = REDUCTIONS[fields["function"]][0], tuple(fields["axes"])
        if ufunc.identity is None and 0 in (arrays[0].shape[axis] for axis in axes):
            return np.full(shape, _of_nothing(fields["function"], dtype) if math.prod(shape) else 0, dtype)
        return np.asarray(ufunc.reduce(arrays[0], axes, dtype, keepdims=fields["keep"]))

    def carried(self, operands: Sequence[np.ndarray]) -> np.ndarray | None:
        return _all_known(self, operands)


def _of_nothing(function: str, dtype: np.dtype) -> float:
    """Return the minimum or maximum of no elements; raises ModelError where the runtimes of both formats differ."""
    if dtype.name not in OF_NOTHING:
        raise ModelError(
            f"there is no {function} of no elements of {element_type_name(dtype)}: ONNX Runtime and OpenVINO agree "
            f"only on those of {', '.join(OF_NOTHING)}; give the axis an element, or cast to one of these"
        )
    if dtype.kind == "f":
        return -np.inf if function == "maximum" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if function == "maximum" else limits.max


@irdl_op_definition
class CumsumOp(SizedOp):
    """Running sums along an axis: up to each element, without it where `exclusive`, from the end where `reverse`.

    ```
    %y = graph.cumsum %mask axis 1 : tensor<?x?xi64> -> tensor<?x?xi64>
    ```
    """

    name = "graph.cumsum"

    axis = prop_def(IntegerAttr)
    exclusive = opt_prop_def(UnitAttr)
    reverse = opt_prop_def(UnitAttr)

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        (dtype,) = element_dtypes(inputs[:1])
        if dtype.name not in (*INTEGERS, *FLOATS):
            raise ModelError(f"running sums are of numbers, got {element_type_name(dtype)}")
        return super().infer_shape(inputs, fields, known)

    @classmethod
    def sizes(cls, fields: Fields, shapes: Sequence[Shape], elements: Elements) -> Shape:
        axis, rank = fields["axis"], len(shapes[0])
        if not 0 <= axis < rank:
            raise ModelError(f"axis {axis} is out of range [0, {rank - 1}] for rank {rank}")
        return shapes[0]

    @classmethod
    def evaluate(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
        axis, array = fields["axis"], arrays[0]
        array = np.flip(array, axis) if fields["reverse"] else array
        with np.errstate(all="ignore"):
            sums = np.cumsum(array, axis, dtype)
        if fields["exclusive"]:
            place = (slice(None),) * axis
            sums[(*place, slice(1, None))] = sums[(*place, slice(None, -1))].copy()
            sums[(*place, slice(0, 1))] = 0
        return np.flip(sums, axis) if fields["reverse"] else sums

    def carried(self, operands: Sequence[np.ndarray]) -> np.ndarray | None:
        return _all_known(self, operands)


@irdl_op_definition
class RangeOp(SizedOp):
    """Integers from the first operand to the second, without it, at steps of the third; each is a scalar.

    ```
    %r = graph.range %start, %end, %step : tensor<i64>, tensor<i64>, tensor<i64> -> tensor<?xi64>
    ```
    """

    name = "graph.range"
    OPERANDS: ClassVar = 3

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        check_integers(inputs, "a range is of integers of one type")
        return super().infer_shape(inputs, fields, known)

    @classmethod
    def sizes(cls, fields: Fields, shapes: Sequence[Shape], elements: Elements) -> Shape:
        if any(shapes):
            raise ModelError("start, end and step of a range are of rank 0")
        numbers: list[int] = []
        for place in range(3):
            element = None if (array := elements(place)) is None else array[()]
            if place == 2 and element is not None and element == 0:
                raise ModelError("the step of a range is 0")
            if element is not None:
                numbers.append(int(element))
        if len(numbers) < 3:
            return (DYNAMIC,)
        first, last, step = numbers
        return (max(0, -(-(last - first) // step)),)

    @classmethod
    def evaluate(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
        first, step = int(arrays[0]), int(arrays[2])
        steps = np.arange(shape[0], dtype=np.uint64 if dtype == np.uint64 else np.int64)
        return (steps * steps.dtype.type(step) + steps.dtype.type(first)).astype(dtype)

    def carried(self, operands: Sequence[np.ndarray]) -> np.ndarray | None:
        return _all_known(self, operands)


def _all_known(op: SizedOp, operands: Sequence[np.ndarray]) -> np.ndarray | None:
    """Return what an operation gives when every element is known."""
    if any(None in operand.flat for operand in operands):
        return None
    (dtype,) = element_dtypes([op.result])
    arrays = [operand.astype(given) for operand, given in zip(operands, element_dtypes(op.inputs), strict=True)]
    return type(op).compute(op.fields(), dtype, arrays).astype(object)
