"""Every element type through every operator: bytes and references alike, serial code.

`tests/kernels/arrays/test_dtypes.py` has what is particular to a type; here all meet all operators and versions.
"""

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gathernest as gn
from gathernest.ir import reference
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd
from gathernest.ir.semantics import Bounds

ML_DTYPES = [
    value for _, value in sorted(vars(ml_dtypes).items()) if isinstance(value, type) and issubclass(value, np.generic)
]
RECORDS = [
    np.dtype([("a", "i1"), ("b", "f8")], align=True),
    np.dtype([("a", "f8", (2, 3)), ("b", [("c", ">i2"), ("d", "S3", (2,))])]),
    np.dtype({"names": ["a"], "formats": ["i4"], "offsets": [3], "itemsize": 11}),
    np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}),
    np.dtype((np.record, [("a", "i2"), ("b", "U2")])),
    np.dtype([("a", ml_dtypes.bfloat16), ("b", ml_dtypes.int4, (3,))]),
    np.dtype([("a", "S0"), ("b", "i4")]),
    np.dtype(("i4", [("low", "i2"), ("high", "i2")])),
]
PLAIN = [
    np.dtype(kind)
    for kind in (
        *("?", *"bBhHiIlLqQefdgFDG", "S1", "S5", "U1", "U3", "V1", "V7", "M8[ns]", "M8[7D]", "M8", "m8[ms]", "m8"),
        *(">i2", ">u8", ">f2", ">f8", ">g", ">c16", ">M8[us]", ">m8[s]", ">U4"),
        *(*ML_DTYPES, *RECORDS),
    )
]
NO_BYTES = [np.dtype(kind) for kind in ("V0", "S0", "U0", [], [("a", "V0")], [("a", "i4", (0,))])]
STRINGS = [np.dtypes.StringDType(**options) for options in ({}, {"na_object": None}, {"na_object": np.nan})]
REFERENCES = [
    *(*STRINGS, np.dtypes.StringDType(na_object="missing"), np.dtypes.StringDType(coerce=False), np.dtype(object)),
    *(np.dtype([("n", "i4"), ("o", object)]), np.dtype([("p", "V3"), ("o", object, (2,))])),
]
DTYPES = [*PLAIN, *NO_BYTES, *REFERENCES]
TEXTS = ["a", "", "a string that is too long to lie in the array itself", "日本語", "\x00b"]
OBJECTS: list[Any] = ["a", None, 3.5, b"c", (1, 2)]

SHAPE = (3, 4, 2)
INDICES = {
    "gather": np.array([[3, 0], [-1, -4]]),
    "gather_nd": np.array([[[3, 0], [-1, 1]], [[0, -2], [2, 1]], [[1, 1], [3, -1]]]),
    "gather_elements": np.array([[[1], [0], [-2]], [[0], [-1], [1]]]),
}
ATTRIBUTES = {"gather": {"axis": 1}, "gather_nd": {"batch_dims": 1}, "gather_elements": {"axis": -1}}
SPECS = {"gather": Gather(1), "gather_nd": GatherNd(1), "gather_elements": GatherElements(-1)}
BOUNDS = ("error", "zero", "clip", "wrap")


@pytest.fixture(autouse=True)
def _serial():
    with gn.knobs.scope(schedule=""):
        yield


def elements(dtype: np.dtype) -> np.ndarray:
    """Return an array of `SHAPE`: noise for plain dtypes, each kind of value for references."""
    if dtype in NO_BYTES:
        return np.ndarray(SHAPE, dtype)  # np.empty makes S1 of S0
    if dtype in PLAIN:
        count = int(np.prod(SHAPE)) * dtype.itemsize
        return np.ndarray(SHAPE, dtype, bytearray(np.random.default_rng(0).integers(0, 2, count, np.uint8)))
    array = np.zeros(SHAPE, dtype)
    texts = [*TEXTS, dtype.na_object] if hasattr(dtype, "na_object") else TEXTS
    values = itertools.cycle(texts if dtype.kind == "T" else OBJECTS)
    target = array["o"] if dtype.names else array
    for place in np.ndindex(*target.shape):
        target[place] = next(values)
    return array


def same(got: np.ndarray, wanted: np.ndarray) -> bool:
    """Return whether two arrays agree: in their bytes, or, of references, in every value."""
    if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
        return False
    if got.dtype in REFERENCES:
        return repr(got.tolist()) == repr(wanted.tolist())
    if got.dtype in NO_BYTES:
        return True
    opaque = f"V{got.dtype.itemsize}"  # of which NumPy copies the padding too
    return got.view(opaque).tobytes() == wanted.view(opaque).tobytes()


def indices_for(name: str, bounds: str) -> np.ndarray:
    """Return the indices of a case, one of them outside when its mode allows that."""
    indices = INDICES[name].copy()
    if bounds != "error":
        indices.flat[1] = 9
    return indices


def modes_of(dtype: np.dtype) -> tuple[str, ...]:
    """Return the modes to try: of the kernels, which know the width of elements only, all of them for one width."""
    return BOUNDS if dtype not in PLAIN or dtype.itemsize == 4 else BOUNDS[:2]


def expected(oracle, name: str, data: np.ndarray, indices: np.ndarray, bounds: str) -> np.ndarray:
    """Return what the plain NumPy reference gathers: positions first, so that it serves references as well."""
    numbers = np.arange(1, data.size + 1).reshape(data.shape)
    case = oracle.make(numbers, indices, bounds=bounds, operator=name, **ATTRIBUTES[name])
    positions = oracle.reference(case)
    if data.dtype in PLAIN:
        raw = np.frombuffer(data.view(f"V{data.dtype.itemsize}").tobytes(), np.uint8).reshape(data.size, -1)
        padded = np.concatenate([np.zeros_like(raw[:1]), raw])
        return np.ndarray(positions.shape, data.dtype, padded[positions.reshape(-1)].tobytes())
    wanted = np.ndarray(positions.shape, data.dtype)
    wanted.reshape(-1)[...] = data.reshape(-1)[np.maximum(positions.reshape(-1) - 1, 0)]
    if data.dtype in REFERENCES:
        wanted[positions == 0] = "" if data.dtype == object else np.zeros((), data.dtype)[()]
    return wanted


@pytest.mark.draw(14)
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_every_element_type_goes_through_every_operator_and_mode(oracle, dtype, name):
    data = elements(dtype)
    for bounds in modes_of(dtype):
        indices = indices_for(name, bounds)
        wanted = expected(oracle, name, data, indices, bounds)
        assert same(reference.run(SPECS[name], data, indices, Bounds(bounds)), wanted), bounds
        assert same(getattr(gn, name)(data, indices, bounds=bounds, **ATTRIBUTES[name]), wanted), bounds


@pytest.mark.draw(7)
@pytest.mark.parametrize(("number", "dtype"), list(enumerate(PLAIN)), ids=repr)
def test_every_element_type_has_a_type_in_the_ir_of_tuples_and_elements(oracle, number, dtype):
    name = ("gather_nd", "gather_elements")[number % 2]
    data, indices = elements(dtype), indices_for(name, "zero")
    with gn.knobs.scope(interpret=True):
        got = getattr(gn, name)(data, indices, bounds="zero", **ATTRIBUTES[name])
    assert same(got, expected(oracle, name, data, indices, "zero"))


@pytest.mark.draw(6)
@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_every_element_type_is_read_backwards_and_written_into_out(oracle, dtype, name):
    data, indices = elements(dtype)[::-1], indices_for(name, "zero")
    wanted = expected(oracle, name, data, indices, "zero")
    out = np.ndarray(wanted.shape[::-1], dtype).T
    assert getattr(gn, name)(data, indices, bounds="zero", out=out, **ATTRIBUTES[name]) is out
    assert same(out, wanted)


@pytest.mark.draw(6)
@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_every_element_type_is_written_over_its_own_data(oracle, dtype):
    data = elements(dtype)
    wanted = expected(oracle, "gather_elements", data, INDICES["gather_elements"], "error")
    out = data[:2, :3, :1]
    gn.gather_elements(data, INDICES["gather_elements"], -1, out=out)
    assert same(out, wanted)


@pytest.mark.draw(6)
@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_every_element_type_goes_through_every_operator_version(dtype):
    data = elements(dtype)
    for version, operator in gn.ops.items():
        if "Elements" in version:
            got, wanted = operator(data, [[[1]]], 2), gn.gather_elements(data, [[[1]]], 2)
        elif "ND" in version:
            got, wanted = operator(data, [[2, 3], [0, 1]]), gn.gather_nd(data, [[2, 3], [0, 1]])
        else:
            got, wanted = operator(data, [3, 0], 1), gn.gather(data, [3, 0], 1)
        got = got.output if version == "labview.GatherND" else got
        assert same(got, wanted), version


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("dtype", [*NO_BYTES, *REFERENCES], ids=repr)
def test_an_index_outside_is_rejected_for_elements_without_bytes_of_their_own(dtype, name):
    with pytest.raises(gn.BoundsError, match=r"index 9 at position \(.*\) of indices is out of range"):
        getattr(gn, name)(elements(dtype), indices_for(name, "zero"), **ATTRIBUTES[name])
