"""Every function on every dtype, byte order and layout: the bytes of a plain reference, or one clear error.

The reference reads a contiguous copy in the byte order of the machine, moves elements as Python objects or bytes, and
adds them one by one in the order of the indices. `make test` runs a table in which each pair of values of two columns
stands together once at least; a thorough test has such a table of all dtypes for each function.
"""

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import gathernest as gn

pytestmark = pytest.mark.usefixtures("serial")

ROWS, COLUMNS = 5, 3
ALONG = np.array([[2, 0, -1], [0, 2, 2]])
TUPLES = np.array([[4, 0], [-1, 2], [0, 1], [4, 0]])
EACH = np.array([[4, 0, -1], [0, 2, 2]])
BAGS = np.array([[4, 0, 4], [1, 1, 2]])

INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
FLOATS = ("f2", "f4", "f8", "c8", "c16")
NARROW = tuple(
    name
    for name, kind in sorted(vars(ml_dtypes).items())
    if isinstance(kind, type) and kind.__module__ != "numpy" and issubclass(kind, np.generic)
)
RECORD = np.dtype([("a", "i2"), ("b", "f8")])
OTHERS = ("?", "g", "G", "M8[s]", "m8[s]", "S5", "U3", "V7", RECORD, "O", "T")
DTYPES = (*INTEGERS, *FLOATS, *NARROW, *OTHERS)
# Of each kind that is added in its own way, for the table: a kernel of each takes a tenth of a second to compile.
TABLE_DTYPES = ("i1", "u2", "i8", "f2", "f4", "c16", "bfloat16", "float8_e5m2", "int4", "complex32", *OTHERS)
ORDERS = ("native", "foreign")


def dtype_of(name, order: str = "native") -> np.dtype:
    dtype = np.dtype(
        np.dtypes.StringDType() if name == "T" else getattr(ml_dtypes, name, name) if isinstance(name, str) else name
    )
    return dtype if order == "native" or name == "T" else dtype.newbyteorder()


def values_of(dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return (shape) small numbers, or what stands for them, that differ along each dimension."""
    numbers = np.arange(np.prod(shape)) % 7
    if dtype == RECORD or dtype == RECORD.newbyteorder():
        array = np.zeros(len(numbers), dtype)
        array["a"], array["b"] = numbers, numbers / 4
    elif dtype.kind == "V" and dtype.type is np.void:
        array = np.array([bytes([number + 1] * dtype.itemsize) for number in numbers], dtype)
    elif dtype.kind in "SUT":
        array = np.array([str(number) * 2 for number in numbers]).astype(dtype)
    elif dtype.kind == "O":
        array = np.array([int(number) for number in numbers] + [None], object)[:-1]
    else:
        array = numbers.astype("M8[s]" if dtype.kind == "M" else "i8").astype(dtype)
        if "complex" in dtype.name:
            array = (array + array * dtype.type(1j)).astype(dtype)
    return array.reshape(shape)


def misaligned(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "T":  # no field of a record may be one
        return array[:]
    whole = np.zeros(array.shape, [("before", "i1"), ("it", array.dtype)])
    whole["it"] = array
    return whole["it"]


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": np.ascontiguousarray,
    "strided": lambda array: np.repeat(array, 3, -1)[..., ::3],
    "reversed": lambda array: np.ascontiguousarray(array[::-1])[::-1],
    "broadcast": lambda array: np.broadcast_to(array[:1], array.shape),
    "read-only": read_only,
    "Fortran": lambda array: np.asfortranarray(array),
    "misaligned": misaligned,
}

SUMMED_KINDS = "iufcmO"


def adds(dtype: np.dtype) -> bool:
    return dtype.kind in SUMMED_KINDS or dtype.type.__module__ == "ml_dtypes"


def adds_in_kernels(dtype: np.dtype) -> bool:
    is_numpys = dtype.type.__module__ == "numpy" and dtype.kind in "iufc" and dtype.char not in "gG"
    return is_numpys or dtype.name == "bfloat16"


def sum_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype in which elements are added: float32 for narrower floats."""
    is_narrow = dtype.type.__module__ == "ml_dtypes"
    if is_narrow and "int" in dtype.name:
        return np.dtype("i1")
    if is_narrow and "complex" in dtype.name:
        return np.dtype("c8")
    return np.dtype("f4") if is_narrow or dtype == np.float16 else dtype


def added(shape: tuple[int, ...], places: list[tuple], terms: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
    """Return zeros of a shape to which each term was added at its place, one after the other."""
    sums = np.zeros(shape, sum_dtype(dtype))
    with np.errstate(all="ignore"):
        for place, term in zip(places, terms, strict=True):
            sums[place] = sums[place] + term.astype(sums.dtype) if isinstance(term, np.ndarray) else sums[place] + term
        return sums.astype(dtype)


def gathered_along(data: np.ndarray) -> np.ndarray:
    return data[:, ALONG % COLUMNS]


def scattered_along(grad: np.ndarray) -> np.ndarray:
    places = [(row, ALONG[i, j] % COLUMNS) for row in range(ROWS) for i in range(2) for j in range(3)]
    return added((ROWS, COLUMNS), places, list(grad.reshape(-1)), grad.dtype)


def scattered_tuples(grad: np.ndarray) -> np.ndarray:
    return added((ROWS, COLUMNS), [(a % ROWS, b % COLUMNS) for a, b in TUPLES], list(grad), grad.dtype)


def scattered_each(grad: np.ndarray) -> np.ndarray:
    places = [(EACH[i, j] % ROWS, j) for i in range(2) for j in range(3)]
    return added((ROWS, COLUMNS), places, list(grad.reshape(-1)), grad.dtype)


def reduced(data: np.ndarray) -> np.ndarray:
    places = [(bag,) for bag in range(2) for _ in range(3)]
    return added((2, COLUMNS), places, [data[row] for row in BAGS.reshape(-1)], data.dtype)


def spread(grad: np.ndarray) -> np.ndarray:
    places = [(row,) for row in BAGS.reshape(-1)]
    return added((ROWS, COLUMNS), places, [grad[bag] for bag in range(2) for _ in range(3)], grad.dtype)


def of_weights(grad: np.ndarray) -> np.ndarray:
    wide, data = sum_dtype(grad.dtype), values_of(grad.dtype, (ROWS, COLUMNS))
    return np.array(
        [[np.dot(data[row].astype(wide), grad[bag].astype(wide)) for row in BAGS[bag]] for bag in range(2)]
    ).astype(grad.dtype)


@dataclass(frozen=True)
class Function:
    """A function of one array: how it is called, the shape of its array, what is expected, and of which dtypes."""

    call: Callable
    shape: tuple[int, ...]
    reference: Callable[[np.ndarray], np.ndarray]
    takes: Callable[[np.ndarray], bool] = lambda dtype: True
    error: str = ""


SIZES = (ROWS, COLUMNS)
CANNOT_BE_ADDED = "must have elements that can be added, got dtype"
NO_KERNEL = "must be float16 to float64, bfloat16, complex or integers of 8 to 64 bits, got"
_ALONG, _PICKED, _EACH = (
    gathered_along,
    lambda data: data[tuple(TUPLES.T)],
    lambda data: np.take_along_axis(data, EACH, 0),
)
OPERATORS = {
    **{
        name: (lambda data, name=name: gn.ops[name](data, ALONG % COLUMNS, 1), _ALONG)
        for name in gn.ops
        if ".Gather-" in name
    },
    **{name: (lambda data, name=name: gn.ops[name](data, TUPLES), _PICKED) for name in gn.ops if "GatherND-" in name},
    **{name: (lambda data, name=name: gn.ops[name](data, EACH, 0), _EACH) for name in gn.ops if "Elements" in name},
    "labview.GatherND": (lambda data: gn.ops["labview.GatherND"](data, TUPLES).output, _PICKED),
}


def backward(grad: np.ndarray) -> np.ndarray:
    return gn.ops["labview.GatherND"](np.zeros(SIZES), TUPLES).backward(grad)


FUNCTIONS = {
    "gather": Function(lambda data: gn.gather(data, ALONG, 1), SIZES, _ALONG),
    "take": Function(lambda data: gn.take(data, ALONG, 1), SIZES, _ALONG),
    "gather_nd": Function(lambda data: gn.gather_nd(data, TUPLES), SIZES, _PICKED),
    "gather_elements": Function(lambda data: gn.gather_elements(data, EACH), SIZES, _EACH),
    "take_along_axis": Function(lambda data: gn.take_along_axis(data, EACH, 0), SIZES, _EACH),
    **{name: Function(call, SIZES, reference) for name, (call, reference) in OPERATORS.items()},
    "gather_grad": Function(
        *(lambda grad: gn.gather_grad(grad, ALONG, SIZES, 1), (ROWS, 2, 3), scattered_along, adds, CANNOT_BE_ADDED)
    ),
    "gather_nd_grad": Function(
        *(lambda grad: gn.gather_nd_grad(grad, TUPLES, SIZES), (4,), scattered_tuples, adds, CANNOT_BE_ADDED)
    ),
    "labview backward": Function(backward, (4,), scattered_tuples, adds, CANNOT_BE_ADDED),
    "gather_elements_grad": Function(
        *(lambda grad: gn.gather_elements_grad(grad, EACH, SIZES), (2, 3), scattered_each, adds, CANNOT_BE_ADDED)
    ),
    "gather_reduce": Function(lambda data: gn.gather_reduce(data, BAGS), SIZES, reduced, adds_in_kernels, NO_KERNEL),
    "gather_reduce_grad": Function(
        *(lambda grad: gn.gather_reduce_grad(grad, BAGS, SIZES), (2, COLUMNS), spread, adds_in_kernels, NO_KERNEL)
    ),
    "gather_reduce_weights_grad": Function(
        lambda grad: gn.gather_reduce_weights_grad(grad, values_of(grad.dtype, SIZES), BAGS),
        *((2, COLUMNS), of_weights),
        lambda dtype: adds_in_kernels(dtype) and dtype.kind not in "iuc",
        f"{NO_KERNEL}|must be floats of one dtype",
    ),
}


def check(function: Function, name, order: str, layout: str) -> None:
    """Compare a call with its reference; raises AssertionError."""
    dtype = dtype_of(name, order)
    given = LAYOUTS[layout](values_of(dtype, function.shape))
    assert given.dtype == dtype, "a layout changed the dtype"
    if not function.takes(dtype):
        with pytest.raises(gn.InvalidGatherError, match=function.error):
            function.call(given)
        return
    found = function.call(given)
    wanted = function.reference(np.ascontiguousarray(given).astype(dtype_of(name)))
    assert (found.dtype, found.shape) == (dtype, wanted.shape)
    if dtype.kind in "OT" or dtype.char in "gG":  # references, and numbers with bytes of padding
        assert found.tolist() == wanted.tolist()
    else:
        assert found.astype(wanted.dtype).tobytes() == wanted.tobytes()


def covering_rows(*columns: tuple, seed: int = 0) -> list[tuple]:
    """Return rows in which each pair of values of two columns stands together; some greedy choice of many."""
    rng, pairs = random.Random(seed), list(itertools.combinations(range(len(columns)), 2))
    missing = {
        (left, right, a, b)
        for left, right in pairs
        for a, b in itertools.product(range(len(columns[left])), range(len(columns[right])))
    }
    rows = []
    while missing:
        left, right, a, b = min(missing)
        tries = []
        for _ in range(20):
            row = [rng.randrange(len(column)) for column in columns]
            row[left], row[right] = a, b
            tries.append((sum((i, j, row[i], row[j]) in missing for i, j in pairs), row))
        _, row = max(tries)
        missing -= {(i, j, row[i], row[j]) for i, j in pairs}
        rows.append(tuple(column[number] for column, number in zip(columns, row, strict=True)))
    return rows


# Functions of one reference run the same kernels, and stand in the table as one.
COVERED = covering_rows(
    tuple({function.reference: None for function in FUNCTIONS.values()}), TABLE_DTYPES, ORDERS, tuple(LAYOUTS)
)


def check_rows(name: str, rows: list[tuple]) -> None:
    failed = []
    for dtype, order, layout in rows:
        try:
            check(FUNCTIONS[name], dtype, order, layout)
        except Exception as error:
            failed.append(f"{dtype} {order} {layout}: {type(error).__name__}: {error}")
    assert not failed, "\n".join(failed)


@pytest.mark.draw(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_pair_of_function_dtype_byte_order_and_layout(name):
    check_rows(name, [row[1:] for row in COVERED if row[0] is FUNCTIONS[name].reference])


@pytest.mark.thorough
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_on_every_dtype_byte_order_and_layout(name):
    check_rows(name, covering_rows(DTYPES, ORDERS, tuple(LAYOUTS), seed=len(name)))
