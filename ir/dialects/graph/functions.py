"""The functions of `graph.elementwise` and `graph.reduce`: their names in both formats, their types, and NumPy.

One table for importers, verifier, interpreter and run time. Every function here is exact or rounded correctly, so that
its bytes are the same wherever it is computed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ...errors import ModelError


class Rule(StrEnum):
    """Which types the operands and the result of a function have.

    ARITHMETIC  numbers of one type, and so is the result.
    COMPARISON  numbers or booleans of one type; the result is of booleans.
    LOGIC       booleans, and so is the result.
    BITS        integers of one type, or booleans, and so is the result.
    CHOICE      booleans, then two operands of any one type, which is the result's.
    """

    ARITHMETIC = "arithmetic"
    COMPARISON = "comparison"
    LOGIC = "logic"
    BITS = "bits"
    CHOICE = "choice"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of elements.

    Attributes:
        name: how `graph.elementwise` calls it.
        rule: the types that it takes and gives.
        operands: how many.
        compute: carries it out on arrays, as a NumPy ufunc does.
        onnx, openvino: the operators that are nothing else; empty where attributes decide, or the format has none.
        opset: of the OpenVINO operator.
    """

    name: str
    rule: Rule
    operands: int
    compute: Callable[..., np.ndarray]
    onnx: str = ""
    openvino: str = ""
    opset: str = "opset1"


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Divide; integers towards zero, as ONNX's Div does."""
    if a.dtype.kind not in "iu":
        return np.true_divide(a, b)
    _check_divisor(b)
    floored, inexact = np.floor_divide(a, b), np.remainder(a, b) != 0
    return floored + (inexact & ((a < 0) != (b < 0))).astype(a.dtype)


def _floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Divide; integers downwards, as OpenVINO's Divide does with `m_pythondiv`."""
    if a.dtype.kind not in "iu":
        return np.true_divide(a, b)
    _check_divisor(b)
    return np.floor_divide(a, b)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return what is left, with the sign of the divisor."""
    _check_divisor(b)
    return np.remainder(a, b)


def _fmod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return what is left, with the sign of the dividend."""
    _check_divisor(b)
    return np.fmod(a, b)


def _check_divisor(b: np.ndarray) -> None:
    if b.dtype.kind in "iu" and not b.all():
        raise ModelError("an integer is divided by 0")


def _table(*functions: Function) -> Mapping[str, Function]:
    return {function.name: function for function in functions}


_A, _C, _L, _B = Rule.ARITHMETIC, Rule.COMPARISON, Rule.LOGIC, Rule.BITS
FUNCTIONS = _table(
    Function("add", _A, 2, np.add, "Add", "Add"),
    Function("subtract", _A, 2, np.subtract, "Sub", "Subtract"),
    Function("multiply", _A, 2, np.multiply, "Mul", "Multiply"),
    Function("divide", _A, 2, _divide, "Div"),
    Function("floor_divide", _A, 2, _floor_divide),
    Function("remainder", _A, 2, _remainder, openvino="FloorMod"),
    Function("fmod", _A, 2, _fmod, openvino="Mod"),
    Function("minimum", _A, 2, np.minimum, openvino="Minimum"),
    Function("maximum", _A, 2, np.maximum, openvino="Maximum"),
    Function("negative", _A, 1, np.negative, "Neg", "Negative"),
    Function("absolute", _A, 1, np.absolute, "Abs", "Abs"),
    Function("sign", _A, 1, np.sign, "Sign", "Sign"),
    Function("floor", _A, 1, np.floor, "Floor", "Floor"),
    Function("ceil", _A, 1, np.ceil, "Ceil", "Ceiling"),
    Function("sqrt", _A, 1, np.sqrt, "Sqrt", "Sqrt"),
    Function("equal", _C, 2, np.equal, "Equal", "Equal"),
    Function("not_equal", _C, 2, np.not_equal, openvino="NotEqual"),
    Function("less", _C, 2, np.less, "Less", "Less"),
    Function("less_equal", _C, 2, np.less_equal, "LessOrEqual", "LessEqual"),
    Function("greater", _C, 2, np.greater, "Greater", "Greater"),
    Function("greater_equal", _C, 2, np.greater_equal, "GreaterOrEqual", "GreaterEqual"),
    Function("and", _L, 2, np.logical_and, "And", "LogicalAnd"),
    Function("or", _L, 2, np.logical_or, "Or", "LogicalOr"),
    Function("xor", _L, 2, np.logical_xor, "Xor", "LogicalXor"),
    Function("not", _L, 1, np.logical_not, "Not", "LogicalNot"),
    Function("bitwise_and", _B, 2, np.bitwise_and, "BitwiseAnd", "BitwiseAnd", "opset13"),
    Function("bitwise_or", _B, 2, np.bitwise_or, "BitwiseOr", "BitwiseOr", "opset13"),
    Function("bitwise_xor", _B, 2, np.bitwise_xor, "BitwiseXor", "BitwiseXor", "opset13"),
    Function("bitwise_not", _B, 1, np.bitwise_not, "BitwiseNot", "BitwiseNot", "opset13"),
    Function("select", Rule.CHOICE, 3, np.where, "Where", "Select"),
)

# What `graph.reduce` does along axes, and the operators of both formats. A sum of floats depends on its order.
REDUCTIONS: Mapping[str, tuple[np.ufunc, str]] = {
    "sum": (np.add, "ReduceSum"),
    "product": (np.multiply, "ReduceProd"),
    "minimum": (np.minimum, "ReduceMin"),
    "maximum": (np.maximum, "ReduceMax"),
}


def evaluate(name: str, arrays: Sequence[np.ndarray], dtype: np.dtype) -> np.ndarray:
    """Return a function of arrays that broadcast, as an array of `dtype`; raises ModelError for a division by zero."""
    with np.errstate(all="ignore"):
        return np.asarray(FUNCTIONS[name].compute(*arrays)).astype(dtype, copy=False)
