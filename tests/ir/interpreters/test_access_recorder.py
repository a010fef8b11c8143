"""The recorder of accesses: every element once, with the loops around it and the iteration of the parallel loop."""

import numpy as np
import pytest
from xdsl.dialects import scf

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.interpreters.recorder import record_accesses
from gathernest.ir.modules.context import parse_module
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.compile import run_stages
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.schedule.schedule import Schedule

SCHEDULE = (
    "tile-loops{loops=outer,indices sizes=2,4},interchange-loops{order=outer_o,indices_o,outer_i,indices_i,inner},"
)
NESTED = """
func.func @gather(%data: memref<1xi32>, %out: memref<2x3xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  scf.parallel (%i) = (%c0) to (%c2) step (%c1) {
    scf.parallel (%j) = (%c0) to (%c3) step (%c1) {
      %element = memref.load %data[%c0] : memref<1xi32>
      memref.store %element, %out[%i, %j] : memref<2x3xi32>
      scf.reduce
    }
    scf.reduce
  }
  func.return
}
"""
DATA, INDICES = np.arange(4 * 9 * 3, dtype=np.float32).reshape(4, 9, 3), np.array([3, 1, 8, 0, 2, 5, 7])


def accesses_of(*arguments, of: str, seed: int | None = None):
    """Return the stores to `out` or the loads of `data`."""
    found = record_accesses(*arguments, seed=seed)
    return [access for access in found if access.array == of and access.is_store == (of == "out")]


@pytest.fixture(scope="module")
def module():
    problem = problem_of("gather", DATA, INDICES, 1, bounds="zero")
    plan = make_plan(problem, Schedule.parse(SCHEDULE + "parallelize-loops{loops=outer_o,indices_o}"))
    return parse_module(run_stages(plan)[-1].text)


def test_stores_are_those_of_every_element_in_its_iteration(module):
    out = np.zeros((4, 7, 3), np.float32)
    found = accesses_of(module, DATA, INDICES, out, of="out")
    assert (out == DATA[:, INDICES]).all()
    assert sorted(access.offset_bytes for access in found) == list(range(0, out.nbytes, 4))
    for access in found:
        outer, index, _ = np.unravel_index(access.offset_bytes // 4, out.shape)
        assert access.loops[0][1] == (outer // 2 * 2, index // 4 * 4)
        assert (access.iteration, access.iterations) == (outer // 2 * 2 + index // 4, 4)
        assert [type(op) for op, _ in access.loops] == [type(access.loops[0][0]), scf.ForOp, scf.ForOp, scf.ForOp]


def test_loads_of_data_are_recorded_with_its_strides(module):
    data, out = np.flip(DATA, 2), np.zeros((4, 7, 3), np.float32)
    problem = problem_of("gather", data, INDICES, 1, bounds="zero")
    strided = parse_module(run_stages(make_plan(problem, Schedule()))[-1].text)
    offsets = {access.offset_bytes for access in accesses_of(strided, data, INDICES, out, of="data")}
    wanted = {
        sum(np.multiply((outer, index, inner), data.strides))
        for outer in range(4) for index in INDICES for inner in range(3)
    }  # fmt: skip
    assert offsets == wanted
    assert min(offsets) < 0


def test_only_stores_are_recorded_of_a_result_that_is_read_too():
    grad, indices, out = np.ones((3, 2), np.float32), np.array([1, 4, 1]), np.zeros((5, 2), np.float32)
    problem = problem_of("gather_grad", ArraySpec.parse("5x2xf32"), indices)
    nests = parse_module(run_stages(make_plan(problem, Schedule()))[-1].text)
    found = accesses_of(nests, grad, indices, out, of="out")
    assert out[1].tolist() == [2, 2]
    assert len(found) == out.size + grad.size  # the table is cleared, and each element of grad is added


def test_of_a_parallel_loop_in_another_the_outer_one_is_shared():
    module = parse_module(NESTED)
    found = accesses_of(module, np.zeros(1, np.int32), None, np.zeros((2, 3), np.int32), of="out")
    shares = {access.offset_bytes // 4: (access.iteration, access.iterations) for access in found}
    assert shares == {place: (place // 3, 2) for place in range(6)}


def test_recording_changes_no_byte(module):
    recorded, plain = np.zeros((4, 7, 3), np.float32), np.zeros((4, 7, 3), np.float32)
    accesses_of(module, DATA, INDICES, recorded, of="out", seed=3)
    interpret(module, DATA, INDICES, plain)
    assert recorded.tobytes() == plain.tobytes()
