"""The Numba backend: what is printed, that it runs, and what is said when it cannot be compiled."""

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.context import parse_module
from gathernest.ir.errors import CompileError, InternalError
from gathernest.lowering.numba.compiler import load_text
from gathernest.lowering.numba.emitter import emit
from gathernest.lowering.numba.program import Program

COUNT = """
func.func @gather(%data: memref<?xi32>, %out: memref<?xi32>) -> i64 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %none = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %n = memref.dim %data, %c0 : memref<?xi32>
  %count = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %none) -> (i64) {
    %x = memref.load %data[%i] : memref<?xi32>
    memref.store %x, %out[%i] : memref<?xi32>
    %next = arith.addi %sum, %one : i64
    scf.yield %next : i64
  }
  func.return %count : i64
}
"""


def address(array):
    return array.__array_interface__["data"][0]


def test_module_written_by_hand_compiles_and_runs():
    program = emit(parse_module(COUNT))
    assert [(parameter.name, parameter.kind) for parameter in program.parameters] == [
        ("data", "address"),
        ("out", "address"),
        ("n_data_0", "size"),
    ]
    data, out = np.arange(5, dtype=np.int32), np.zeros(5, np.int32)
    assert load_text(program, "by_hand")(address(data), address(out), 5, False) == 5
    assert out.tolist() == data.tolist()


def test_each_line_knows_its_operation():
    program = emit(parse_module(COUNT))
    lines = program.source.splitlines()
    loads = [number for number, op in program.line_ops.items() if op == "memref.load"]
    assert [lines[number - 1].strip() for number in loads] == ["x = load_i32(data, 4 * i)"]


def test_header_holds_the_ir_and_what_it_is_given():
    source = emit(parse_module(COUNT), "Pipeline: mine\n").source
    assert source.startswith("# Pipeline: mine\n")
    assert "\n#       %x = memref.load %data[%i] : memref<?xi32>\n" in source


def test_names_that_python_keeps_are_changed():
    source = emit(parse_module(COUNT.replace("%x", "%lambda").replace("%next", "%print"))).source
    assert "lambda_1 = load_i32" in source
    assert "print_1 = " in source


def test_program_survives_json():
    program = emit(parse_module(COUNT))
    assert Program.from_json(program.source, program.to_json()) == program


def test_refused_code_names_file_line_and_operation():
    program = emit(parse_module(COUNT))
    line = next(number for number, op in program.line_ops.items() if op == "memref.load")
    lines = program.source.splitlines()
    lines[line - 1] = lines[line - 1].replace("load_i32(data, 4 * i)", "load_i32(data, 'four')")
    broken = Program("\n".join(lines) + "\n", program.parameters, program.line_ops)
    with pytest.raises(CompileError) as raised:
        load_text(broken, "broken")
    assert (raised.value.line, raised.value.op) == (line, "memref.load")
    assert f"{raised.value.file}:{line}" in str(raised.value)
    assert "printed from memref.load" in str(raised.value)


def test_operation_without_a_form_is_an_internal_error():
    text = COUNT.replace("%next = arith.addi %sum", "%next = arith.divsi %sum")
    with pytest.raises(InternalError, match=r"the code generator has no form for arith\.divsi"):
        emit(parse_module(text))


@pytest.mark.parametrize("bounds", ["error", "zero"])
def test_serial_and_parallel_paths_give_the_same(bounds):
    rng = np.random.default_rng(0)
    data, indices = rng.random((500, 33)), rng.integers(-500, 500, 4000)
    kernel = gn.compile("gather", data, indices, bounds=bounds)
    with gn.knobs.scope(num_threads=1):
        serial = kernel(data, indices)
    assert kernel(data, indices).tobytes() == serial.tobytes() == np.take(data, indices, axis=0).tobytes()
