"""Gradients of every operator, bounds mode, dtype and layout against sums made one by one in plain Python."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gathernest as gn
from gathernest.ir import reference
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd, Gradient
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.schedule.schedule import Schedule

from ...selection import examples
from ..cases import EXACT
from .sums import ADDED, BOUNDS, NARROW, agree, numbers, sums_one_by_one

OPERATORS = pytest.mark.parametrize("operator", ["gather", "gather_nd", "gather_elements"])
FUNCTIONS = {"gather": gn.gather_grad, "gather_nd": gn.gather_nd_grad, "gather_elements": gn.gather_elements_grad}
SPECS = {"gather": Gather, "gather_nd": GatherNd, "gather_elements": GatherElements}
WIDENED = tuple(
    map(np.dtype, ("f2", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu))
)
BY_NUMPY = tuple(map(np.dtype, ("longdouble", "clongdouble", "m8[ns]", "O")))
FOREIGN = tuple(map(np.dtype, (">f4", ">c16", ">i2")))


def check_compiled(oracle, case, dtype: np.dtype, scale: float, **options) -> None:
    grad = numbers(case.out_shape, dtype)
    grad = grad if dtype.hasobject else oracle.lay_out(grad, case.out_layout)
    wanted = sums_one_by_one(oracle, case, grad, scale)
    out = np.full(case.data.shape, 7).astype(np.int8).astype(dtype)
    before = out.copy()
    call = FUNCTIONS[case.operator]
    attributes = {**case.attributes(), "bounds": case.bounds, "scale": scale, **options}
    if wanted is None:
        with pytest.raises(gn.BoundsError):
            call(grad, case.indices, case.data.shape, out=out, **attributes)
        assert agree(out, before)
        return
    with np.errstate(all="ignore"):
        assert agree(call(grad, case.indices, case.data.shape, **attributes), wanted)
        assert call(grad, case.indices, case.data.shape, out=out, **attributes) is out
    assert agree(out, wanted)


@pytest.mark.draw(1)
@settings(EXACT, max_examples=examples(12))
@given(data=st.data())
@OPERATORS
def test_every_stage_gives_the_sums(oracle, operator, data):
    case = oracle.staged_case(data.draw, operator=operator, dtype=np.dtype("f4"), layouts=("contiguous",))
    dtype, scale = data.draw(st.sampled_from(ADDED)), data.draw(st.sampled_from([1.0, 3.0, -1.0]))
    grad = numbers(case.out_shape, dtype)
    wanted = sums_one_by_one(oracle, case, grad, scale)
    spec = SPECS[operator](**case.attributes())
    table, indices = ArraySpec(case.data.shape, dtype), ArraySpec.of(case.indices)
    problem = Problem.checked(spec, table, indices, Bounds(case.bounds), ArraySpec.of(grad), gradient=Gradient(scale))
    plan = make_plan(problem, data.draw(st.sampled_from([None, Schedule()])))
    for stage, module in oracle.stages_with_modules(plan, case.data.size):
        out = np.full(case.data.shape, 7).astype(dtype)
        try:
            interpret(module, grad, case.indices, out)
        except gn.BoundsError:
            assert wanted is None, f"{stage.name} of {case}:\n{stage.text}"
            continue
        is_late = wanted is None and 0 in case.out_shape  # a nest that reads no index meets no bad one
        assert is_late or (wanted is not None and agree(out, wanted)), f"{stage.name} of {case}:\n{stage.text}"


@pytest.mark.parametrize("bounds", BOUNDS)
@settings(EXACT, max_examples=examples(4))
@given(data=st.data())
@OPERATORS
def test_compiled_gradient_gives_the_sums(oracle, operator, bounds, data):
    case = oracle.case(data.draw, operator=operator, bounds=bounds, dtype=np.dtype("i4"), layouts=("contiguous",))
    check_compiled(oracle, case, np.dtype("f4"), data.draw(st.sampled_from([1.0, 0.1])))


@pytest.mark.draw(10)
@pytest.mark.parametrize("dtype", [*ADDED, *WIDENED, *NARROW, *BY_NUMPY, *FOREIGN], ids=str)
@settings(EXACT, max_examples=examples(3))
@given(data=st.data())
def test_every_dtype_is_added_in_the_order_of_the_indices(oracle, dtype, data):
    roles = ("batch", "indices", "inner")
    case = oracle.case_of_roles(data.draw, roles, dtype=np.dtype("i4"), index_dtype="int64", bounds="zero")
    check_compiled(oracle, case, dtype, data.draw(st.sampled_from([1.0, 3.0])))


@pytest.mark.parametrize("layout", ["reversed", "stepped", "transposed", "padded", "field"])
def test_strided_gradients_are_read_and_written_in_place(oracle, layout):
    grad = oracle.lay_out(numbers((3, 6, 4), np.dtype("f4")), layout)
    indices = oracle.lay_out(np.array([4, 0, -1, 4, 2, 0]), layout)
    case = oracle.make(np.zeros((3, 5, 4), "f4"), indices, axis=1)
    wanted = sums_one_by_one(oracle, case, grad, 1.0)
    out = oracle.lay_out(np.ones((3, 5, 4), "f4"), layout)
    assert gn.gather_grad(grad, indices, (3, 5, 4), 1, out=out) is out
    assert agree(np.ascontiguousarray(out), wanted)


def test_a_scale_multiplies_each_part_of_a_complex_sum():
    grad, indices = np.array([complex(np.inf, 1)]), np.array([0])
    wanted = np.array([complex(-np.inf, -1), complex(-0.0, -0.0)])
    assert gn.gather_grad(grad, indices, (2,), scale=-1.0).tobytes() == wanted.tobytes()
    assert reference.gradient(Gather(), grad, indices, (2,), scale=-1.0).tobytes() == wanted.tobytes()


@OPERATORS
@settings(EXACT, max_examples=examples(5))
@given(data=st.data())
def test_gradient_is_the_adjoint_of_the_gather(oracle, operator, data):
    case = oracle.case(data.draw, operator=operator, bounds="zero", dtype=np.dtype("i8"), layouts=("contiguous",))
    rng = np.random.default_rng(0)
    values = rng.integers(-9, 9, case.data.shape).astype("f8")
    grad = rng.integers(-9, 9, case.out_shape).astype("f8")
    gathered = getattr(gn, operator)(values, case.indices, **case.attributes(), bounds="zero")
    back = FUNCTIONS[operator](grad, case.indices, values.shape, **case.attributes(), bounds="zero")
    assert np.sum(gathered * grad) == np.sum(values * back)
