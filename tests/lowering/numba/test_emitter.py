"""The Numba backend: what is printed, that it runs, and what is said when it cannot be compiled."""

import numpy as np
import pytest

from gathernest.ir.errors import CompileError, InternalError
from gathernest.ir.modules.context import parse_module
from gathernest.lowering.native.threads.thread_team import Team
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


def counting_nest(depth):
    """Return a nest of loops over the size of `%data` that counts its innermost iterations."""
    lines = ["func.func @gather(%data: memref<?xi32>) -> i64 {", "%step = arith.constant 1 : index"]
    lines += ["%c0 = arith.constant 0 : index", "%sum0 = arith.constant 0 : i64", "%one = arith.constant 1 : i64"]
    lines += ["%n = memref.dim %data, %c0 : memref<?xi32>"]
    for loop in range(1, depth + 1):
        heads = f"iter_args(%sum{loop} = %sum{loop - 1}) -> (i64)"
        lines.append(f"%result{loop} = scf.for %i{loop} = %c0 to %n step %step {heads} {{")
    lines += [f"%result{depth + 1} = arith.addi %sum{depth}, %one : i64"]
    for loop in range(depth, 0, -1):
        lines += [f"scf.yield %result{loop + 1} : i64", "}"]
    return "\n".join([*lines, "func.return %result1 : i64", "}"])


def test_deep_nest_is_printed_in_functions_that_python_takes():
    source = emit(parse_module(counting_nest(30))).source
    compile(source, "by_hand", "exec")
    assert max(len(line) - len(line.lstrip()) for line in source.splitlines()) <= 11 * 4


@pytest.mark.thorough
def test_deep_nest_counts_through_its_functions():
    program = emit(parse_module(counting_nest(21)))
    for size, count in ((1, 1), (2, 2**21), (0, 0)):
        assert load_text(program, "by_hand")(0, size, False) == count


def test_names_that_python_keeps_are_changed():
    source = emit(parse_module(COUNT.replace("%x", "%lambda").replace("%next", "%print"))).source
    assert "lambda_1 = load_i32" in source
    assert "print_1 = " in source


def test_a_value_does_not_take_the_name_of_a_size():
    text = COUNT.replace("%data: memref<?xi32>", "%data: memref<?xi32> {gather.view = #gather.view<inner[0]>}")
    text = text.replace("%n = memref.dim", "%n_inner = arith.addi %none, %none : i64\n%n = memref.dim")
    data, out = np.arange(5, dtype=np.int32), np.zeros(5, np.int32)
    assert load_text(emit(parse_module(text)), "names")(address(data), address(out), 5, False) == 5


def test_program_survives_json():
    program = emit(parse_module(COUNT))
    assert Program.from_json(program.source, program.to_json()) == program


def test_rejected_code_names_file_line_and_operation():
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


PARALLEL = """
func.func @gather(%out: memref<4x5x6x7xi64>) {{
  %one = arith.constant 1 : i64
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %c6 = arith.constant 6 : index
  %c7 = arith.constant 7 : index
  scf.parallel (%i, %j, %k, %l) = {trips} {{
    memref.store %one, %out[%i, %j, %k, %l] : memref<4x5x6x7xi64>
  }}
  func.return
}}
"""


def team_of(members: int) -> int:
    """Return the address of a subteam; 0 for none."""
    return Team(members).of(members) if members else 0


@pytest.mark.parametrize("members", [0, 1, 3])
@pytest.mark.parametrize(
    ("trips", "written"),
    [
        ("(%c0, %c1, %c0, %c2) to (%c4, %c5, %c6, %c7) step (%c3, %c1, %c4, %c2)", np.s_[0:4:3, 1:5, 0:6:4, 2:7:2]),
        ("(%c1, %c0, %c2, %c0) to (%c4, %c5, %c5, %c7) step (%c2, %c2, %c1, %c1)", np.s_[1:4:2, 0:5:2, 2:5, 0:7]),
        ("(%c4, %c5, %c0, %c0) to (%c1, %c2, %c6, %c7) step (%c1, %c1, %c1, %c1)", np.s_[4:1, 5:2, :, :]),
    ],
)
def test_parallel_loop_runs_every_point_from_its_start_to_its_end(trips, written, members):
    program = emit(parse_module(PARALLEL.format(trips=trips)))
    out, expected = np.zeros((4, 5, 6, 7), np.int64), np.zeros((4, 5, 6, 7), np.int64)
    expected[written] = 1
    load_text(program, f"parallel_{abs(hash(trips))}")(address(out), team_of(members))
    assert out.tolist() == expected.tolist()


REDUCED = """
func.func @gather(%out: memref<4xi64>) -> i64 {{
  %one = arith.constant 1 : i64
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %r = scf.parallel (%i) = (%c0) to (%c4) step (%c1) init (%one) -> i64 {{
    {body}
    scf.reduce(%one : i64) {{
    ^bb0(%a: i64, %b: i64):
      %c = arith.{op} %a, %b : i64
      scf.reduce.return %c : i64
    }}
  }}
  func.return %r : i64
}}
"""
INNER = "scf.parallel (%j) = (%c0) to (%c4) step (%c1) {\nmemref.store %one, %out[%j] : memref<4xi64>\n}"


@pytest.mark.parametrize(
    ("op", "body", "message"),
    [
        ("muli", "", "the code generator knows the sum of one value as a reduction, and no other"),
        ("addi", INNER, r"the code generator expects no scf\.parallel inside another"),
    ],
)
def test_parallel_loop_without_a_form_is_an_internal_error(op, body, message):
    with pytest.raises(InternalError, match=message):
        emit(parse_module(REDUCED.format(op=op, body=body)))


WINDOWS = """
func.func @gather(%data: memref<3x4xi32, strided<[1, 1]>>, %out: memref<3x4xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c0 to %c3 step %c1 {
    scf.for %j = %c0 to %c4 step %c1 {
      %x = memref.load %data[%i, %j] : memref<3x4xi32, strided<[1, 1]>>
      memref.store %x, %out[%i, %j] : memref<3x4xi32>
    }
  }
  func.return
}
"""


def test_dimensions_that_both_have_a_stride_of_one_element_are_read_in_place():
    program = emit(parse_module(WINDOWS))
    data, out = np.arange(6, dtype=np.int32), np.zeros((3, 4), np.int32)
    load_text(program, "windows")(address(data), address(out), 0)
    assert out.tolist() == np.lib.stride_tricks.sliding_window_view(data, 4).tolist()


def test_a_flag_is_extended_by_its_sign_or_by_zeros():
    count_one = "%next = arith.addi %sum, %one : i64"
    flag = "%is = arith.cmpi eq, %sum, %sum : i64\n%wide = arith.{op} %is : i1 to i64\n"
    flag += "%next = arith.addi %sum, %wide : i64"
    data, out = np.arange(5, dtype=np.int32), np.zeros(5, np.int32)
    for op, count in (("extsi", -5), ("extui", 5)):
        program = emit(parse_module(COUNT.replace(count_one, flag.format(op=op))))
        assert load_text(program, op)(address(data), address(out), 5, False) == count


@pytest.mark.parametrize(
    ("attributes", "called"),
    [
        ("nontemporal = true, alignment = 16 : i64", "stream_v4xi32"),
        ("nontemporal = true, alignment = 1 : i64", "stream_anywhere_v4xi32"),
        ("alignment = 16 : i64", "store_v4xi32"),
    ],
)
def test_a_vector_goes_past_the_caches_where_the_ir_says_so_and_anywhere_where_it_is_not_aligned(attributes, called):
    source = emit(
        parse_module(
            f"""
            func.func @gather(%data: memref<4xi32>, %out: memref<4xi32>) {{
              %c0 = arith.constant 0 : index
              %v = vector.load %data[%c0] : memref<4xi32>, vector<4xi32>
              vector.store %v, %out[%c0] {{{attributes}}} : memref<4xi32>, vector<4xi32>
              func.return
            }}
            """
        )
    ).source
    assert f"    {called}(out, " in source


@pytest.mark.parametrize(("attributes", "called"), [("{nontemporal = true} ", "stream_i32"), ("", "store_i32")])
def test_an_element_goes_past_the_caches_where_the_ir_says_so(attributes, called):
    text = COUNT.replace("%out[%i] : memref", f"%out[%i] {attributes}: memref")
    assert f"    {called}(out, " in emit(parse_module(text)).source


TRUTHS = """
func.func @gather(%data: memref<2xi64>, %out: memref<2xi64>) -> i64 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %five = arith.constant 5 : i64
  %first = memref.load %data[%c0] : memref<2xi64>
  %second = memref.load %data[%c1] : memref<2xi64>
  %is_small = arith.cmpi slt, %first, %five : i64
  %is_small_1 = arith.cmpi slt, %second, %five : i64
  %one = arith.extui %is_small : i1 to i64
  %one_1 = arith.extui %is_small_1 : i1 to i64
  %ones = vector.from_elements %one, %one_1 : vector<2xi64>
  STORE
  %count = vector.reduction <add>, %ones : vector<2xi64> into i64
  func.return %count : i64
}
"""


@pytest.mark.parametrize("is_stored", [False, True])
def test_truths_that_are_only_summed_are_counted(is_stored):
    store = """%small = vector.from_elements %is_small, %is_small_1 : vector<2xi1>
    vector.compressstore %out[%c0], %small, %ones : memref<2xi64>, vector<2xi1>, vector<2xi64>"""
    program = emit(parse_module(TRUTHS.replace("STORE", store if is_stored else "")))
    assert ("count_v2xi1" in program.source, "sum_v2xi64" in program.source) == (not is_stored, is_stored)
    run = load_text(program, "count")
    for values in ([4, 4], [4, 5], [5, 4], [5, 5]):
        data, out = np.array(values, np.int64), np.full(2, 7)
        small = sum(value < 5 for value in values)
        assert run(address(data), address(out), 0) == small
        assert out.tolist()[:small] == [1 if is_stored else 7] * small


@pytest.mark.parametrize("reduced", ["<mul>, %ones", "<add>, %ones, %five"])
def test_lanes_are_added_to_nothing_else(reduced):
    text = f"""
    func.func @gather(%data: memref<2xi64>) -> i64 {{
      %five = arith.constant 5 : i64
      %ones = vector.from_elements %five, %five : vector<2xi64>
      %count = vector.reduction {reduced} : vector<2xi64> into i64
      func.return %count : i64
    }}
    """
    with pytest.raises(InternalError, match="one reduction of a vector, the sum of its lanes alone"):
        emit(parse_module(text))


def test_truths_are_those_of_where_the_vector_is_made():
    stores = "".join(f"memref.store %five, %out[%c{place}] : memref<2xi64>\n" for place in range(2))
    text = TRUTHS.replace("%data[", "%out[").replace("STORE", stores)
    out = np.array([4, 5])
    assert load_text(emit(parse_module(text)), "count")(address(out), address(out), 0) == 1
    assert out.tolist() == [5, 5]
