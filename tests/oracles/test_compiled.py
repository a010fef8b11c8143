"""Compiled kernels give the reference's bytes, serial and parallel, or reject what it rejects.

Kernels are keyed by what their code depends on, so each test draws many shapes that one kernel serves.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gathernest as gn

from ..selection import examples
from . import cases

pytestmark = pytest.mark.usefixtures("eager_threads")

EXACT = settings(cases.EXACT, max_examples=examples(7))
INDEX_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
BOUNDS = ("error", "zero", "clip", "wrap", "unchecked")
ROLES = ("batch", "outer", "indices", "inner")
ALL_ROLE_SETS = [roles for count in range(5) for roles in itertools.combinations(ROLES, count)]
WIDTHS = [np.dtype(name) for name in ("u1", "u2", "u4", "u8", "c16")]

MODES = list(itertools.product(INDEX_DTYPES, BOUNDS))
MODE_CASES = [
    (index_dtype, bounds, WIDTHS[number % 5], ALL_ROLE_SETS[-1 - number % 7])
    for number, (index_dtype, bounds) in enumerate(MODES)
]


def run(case, schedule: gn.Schedule | None = None):
    """Return a function that carries a case out with a compiled kernel."""
    attributes = case.attributes() | {"bounds": case.bounds, "schedule": schedule}
    kernel = gn.compile(case.operator, case.data, case.indices, **attributes)
    return lambda out: kernel(case.data, case.indices, out)


def check(oracle, case, schedule: gn.Schedule | None = None) -> None:
    wanted = oracle.expected(case)
    assert oracle.agrees(case, wanted, run(case, schedule), gn.BoundsError), case


@pytest.mark.draw(6)
@pytest.mark.parametrize(("index_dtype", "bounds", "dtype", "roles"), MODE_CASES)
@settings(EXACT)
@given(data=st.data())
def test_kernel_equals_the_reference_in_every_mode(oracle, index_dtype, bounds, dtype, roles, data):
    case = oracle.case_of_roles(data.draw, roles, dtype=dtype, index_dtype=index_dtype, bounds=bounds)
    check(oracle, case, gn.Schedule())


@pytest.mark.draw(4)
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("index_dtype", ["int8", "uint8"])
@settings(EXACT)
@given(data=st.data())
def test_kernel_equals_the_reference_on_an_axis_that_the_index_dtype_cannot_leave(oracle, index_dtype, bounds, data):
    case = oracle.case_of_roles(
        data.draw, ROLES, dtype=np.dtype("u4"), index_dtype=index_dtype, bounds=bounds, long_axis=True
    )
    check(oracle, case, gn.Schedule())


@pytest.mark.draw(7)
@settings(EXACT, max_examples=examples(3))
@given(data=st.data())
def test_kernel_moves_elements_of_every_dtype(oracle, element_dtype, data):
    case = oracle.case_of_roles(data.draw, ROLES, dtype=element_dtype, index_dtype="int64", bounds="zero")
    check(oracle, case, gn.Schedule())


@pytest.mark.draw(6)
@pytest.mark.parametrize("roles", ALL_ROLE_SETS, ids="-".join)
@settings(EXACT)
@given(data=st.data())
def test_kernel_equals_the_reference_for_every_set_of_roles(oracle, roles, data):
    case = oracle.case_of_roles(data.draw, roles, dtype=np.dtype("u4"), index_dtype="int64", bounds="error")
    check(oracle, case, gn.Schedule())


LARGE = {
    "rows of a table": ((50, 40), (700,), 0, 0),
    "elements of a vector": ((5000,), (9000,), 0, 0),
    "columns of a matrix": ((300, 64), (96,), 1, 0),
    "columns of many matrices": ((40, 30, 7, 3), (11, 2), 2, 0),
    "a batch of tables": ((6, 20, 33), (6, 150), 1, 1),
    "a batch of columns": ((5, 30, 40), (5, 64), 2, 1),
    "many tiny batches": ((3000, 2, 5, 3), (3000, 4), 2, 1),
    "one index of each batch": ((900, 12, 5), (900,), 1, 1),
    "one index": ((400, 6, 50), (), 1, 0),
}


@pytest.mark.draw(3)
@pytest.mark.parametrize("bounds", ["error", "zero"])
@pytest.mark.parametrize("name", LARGE)
def test_kernel_equals_the_reference_with_the_schedule_chosen_for_its_sizes(oracle, name, bounds):
    shape, indices_shape, axis, batch_dims = LARGE[name]
    size = shape[axis]
    beyond = 0 if bounds == "error" else 2
    indices = np.random.default_rng(1).integers(-size - beyond, size + beyond, indices_shape)
    check(oracle, oracle.make(oracle.fill(shape, np.dtype("u4")), indices, axis, batch_dims, bounds))


@pytest.mark.draw(3)
@pytest.mark.parametrize("name", LARGE)
def test_kernel_rejects_one_bad_index_anywhere_and_leaves_out_untouched(oracle, name):
    shape, indices_shape, axis, batch_dims = LARGE[name]
    indices = np.zeros(indices_shape, np.int64)
    for place in (0, -1):
        indices.flat[place] = shape[axis]
        case = oracle.make(oracle.fill(shape, np.dtype("u4")), indices, axis, batch_dims)
        assert oracle.expected(case) is None
        check(oracle, case)
        indices.flat[place] = 0


SCHEDULES = [
    "tile-loops{loops=outer,inner sizes=2,3},parallelize-loops{loops=batch}",
    "tile-loops{loops=indices sizes=2},interchange-loops{order=indices_o,batch,indices_i,inner,outer}",
    "interchange-loops{order=inner,indices,outer,batch},parallelize-loops{loops=inner,indices,outer,batch}",
    "tile-loops{loops=batch,outer,indices,inner sizes=2,2,2,2},"
    "interchange-loops{order=batch_o,outer_o,indices_o,inner_o,inner_i,indices_i,outer_i,batch_i},"
    "parallelize-loops{loops=batch_o,outer_o,indices_o,inner_o}",
    "tile-loops{loops=check_indices sizes=2},parallelize-loops{loops=check_indices_o,batch}",
    "parallelize-loops{loops=check_indices,batch,outer,indices,inner}",
]


@pytest.mark.draw(3)
@pytest.mark.parametrize("schedule", SCHEDULES)
@settings(EXACT)
@given(data=st.data())
def test_kernel_equals_the_reference_under_a_schedule_of_the_users(oracle, schedule, data):
    case = oracle.case_of_roles(data.draw, ROLES, dtype=np.dtype("u2"), index_dtype="int32", bounds="error")
    check(oracle, case, gn.Schedule.parse(schedule))


VIEWS = [
    *itertools.product(["reversed", "stepped", "transposed", "padded", "field"], ["contiguous"], ["contiguous"]),
    *itertools.product(["contiguous"], ["reversed", "transposed", "field"], ["contiguous"]),
    *itertools.product(["contiguous"], ["contiguous"], ["reversed", "stepped", "transposed", "field"]),
    ("field", "field", "field"),
    ("transposed", "reversed", "stepped"),
]


@pytest.mark.draw(3)
@pytest.mark.parametrize(("data_layout", "indices_layout", "out_layout"), VIEWS)
def test_kernel_reads_and_writes_views_in_place(oracle, data_layout, indices_layout, out_layout):
    shape, indices_shape = (2, 3, 4, 5, 2), (2, 3, 2)
    indices = np.random.default_rng(3).integers(-6, 6, indices_shape)
    data = oracle.lay_out(oracle.fill(shape, np.dtype("f8")), data_layout)
    case = oracle.make(data, oracle.lay_out(indices, indices_layout), 2, 1, "zero", out_layout)
    check(oracle, case, gn.Schedule())


@pytest.mark.parametrize("repeated", [(0,), (1,), (2,), (0, 1, 2), (0, 2)])
def test_kernel_reads_broadcast_data_in_place(oracle, repeated):
    values = oracle.fill((3, 4, 5), np.dtype("f4"))
    kept = tuple(slice(0, 1) if dim in repeated else slice(None) for dim in range(3))
    data = np.broadcast_to(values[kept], values.shape)
    check(oracle, oracle.make(data, np.array([3, 0, -1]), 1), gn.Schedule())


@pytest.mark.parametrize("axis", [0, 1])
def test_kernel_reads_broadcast_indices_in_place(oracle, axis):
    indices = np.broadcast_to(np.array([1, -1, 0]), (4, 3))
    check(oracle, oracle.make(oracle.fill((2, 3), np.dtype("f4")), indices, axis), gn.Schedule())


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("operator", ["gather_nd", "gather_elements"])
def test_kernel_of_the_other_operators_equals_the_reference(oracle, operator, bounds):
    rng = np.random.default_rng(5)
    data = oracle.fill((4, 5, 6), np.dtype("f4"))
    beyond, least = (0, 0) if bounds == "unchecked" else (0, -4) if bounds == "error" else (3, -9)
    indices = rng.integers(least, 4 + beyond, (4, 5, 2) if operator == "gather_nd" else (4, 3, 6))
    attributes = {"batch_dims": 1} if operator == "gather_nd" else {"axis": 1}
    for schedule in (gn.Schedule(), None):
        check(oracle, oracle.make(data, indices, bounds=bounds, operator=operator, **attributes), schedule)


@pytest.mark.parametrize("operator", ["gather_nd", "gather_elements"])
def test_kernel_of_the_other_operators_rejects_a_bad_index(oracle, operator):
    indices = np.zeros((4, 5, 2), np.int64)
    indices[2, 3, 1] = 6
    data = oracle.fill((6, 6, 6), np.dtype("f4"))
    check(oracle, oracle.make(data, indices, operator=operator))
