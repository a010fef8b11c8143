"""The interpreter rejects what no correct module does, and gives every operation its meaning."""

import numpy as np
import pytest

from gathernest.ir.errors import BoundsError, InternalError
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.modules.context import parse_module

DATA = np.arange(20, dtype=np.int32).reshape(5, 4)
INDICES = np.array([3, 0, 4], np.int64)


def run(body: str, *, data: str = "memref<5x4xi32>", out: str = "memref<3xi32>", seed: int = 0) -> np.ndarray:
    text = f"""func.func @gather(%data: {data}, %indices: memref<3xi64>, %out: {out}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      {body}
      func.return
    }}"""
    result = np.full(3, -1, np.int32)
    interpret(parse_module(text), DATA, INDICES, result, seed=seed)
    return result


SIX = "%six = arith.addi %c3, %c3 : index\n"
SEVEN = "%seven = arith.constant 7 : i32\n"
STORE = "memref.store %seven, %out[%c1] : memref<3xi32>"
FREED = f"""{SEVEN}%own = memref.alloc(%c3) : memref<?xi32>
    memref.store %seven, %own[%c0] : memref<?xi32>
    memref.dealloc %own : memref<?xi32>
    """
RACES, IS_FREED = "two iterations of a parallel loop write the element at", "uses memory that is freed"
# By what is wrong: operations, and the message of the internal error.
WRONG = {
    "a row outside": (f"{SIX}%x = memref.load %data[%six, %c0] : memref<5x4xi32>", "is outside an array of shape"),
    "a column outside": (f"{SIX}%x = memref.load %data[%c0, %six] : memref<5x4xi32>", "is outside an array of shape"),
    "a negative row": (
        "%low = arith.subi %c0, %c1 : index\n%x = memref.load %data[%low, %c0] : memref<5x4xi32>",
        r"access at \(-1, 0\) is outside an array of shape \(5, 4\)",
    ),
    "a store outside": (
        f"{SEVEN}memref.store %seven, %out[%c3] : memref<3xi32>",
        r"access at \(3,\) is outside an array of shape \(3,\)",
    ),
    "a race": (f"{SEVEN}gather.loop parallel a(%i) = %c0 to %c3 step %c1 {{\n{STORE}\n}}", RACES),
    "a race of scf": (f"{SEVEN}scf.parallel (%i) = (%c0) to (%c3) step (%c1) {{\n{STORE}\n}}", RACES),
    "a race of the outer loop": (
        f"{SEVEN}gather.loop parallel a(%i) = %c0 to %c3 step %c1 {{\n"
        "gather.loop parallel b(%j) = %c0 to %c3 step %c1 {\nmemref.store %seven, %out[%j] : memref<3xi32>\n}\n}",
        RACES,
    ),
    "an operation": ("%x = arith.divsi %c3, %c1 : index", r"the interpreter does not know arith\.divsi"),
    "a load behind dealloc": (f"{FREED}%x = memref.load %own[%c0] : memref<?xi32>", IS_FREED),
    "a store behind dealloc": (f"{FREED}memref.store %seven, %own[%c0] : memref<?xi32>", IS_FREED),
    "a vector behind dealloc": (f"{FREED}%x = vector.load %own[%c0] : memref<?xi32>, vector<2xi32>", IS_FREED),
    "a prefetch behind dealloc": (
        f"{FREED}memref.prefetch %own[%c0], read, locality<3>, data : memref<?xi32>",
        IS_FREED,
    ),
    "a prefetch of a view behind dealloc": (
        f"{FREED}%view = memref.collapse_shape %own [[0]] : memref<?xi32> into memref<?xi32>\n"
        "memref.prefetch %view[%c0], read, locality<3>, data : memref<?xi32>",
        IS_FREED,
    ),
    "two deallocs": (f"{FREED}memref.dealloc %own : memref<?xi32>", IS_FREED),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_no_correct_module_does_is_an_internal_error(name):
    body, message = WRONG[name]
    with pytest.raises(InternalError, match=message):
        run(body)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("memref<3x4xi32>", "sizes 5x4 where the code takes "),
        ("memref<20xi32>", "sizes 5x4 where the code takes "),
        ("memref<5x4xi32, strided<[77, 1]>>", "byte strides .* where the code takes memref<"),
    ],
)
def test_array_of_another_type_is_an_internal_error(data, message):
    with pytest.raises(InternalError, match=f"^data of .*: {message}"):
        run("", data=data)


def test_sequential_iterations_may_write_one_element():
    assert run(f"{SEVEN}gather.loop a(%i) = %c0 to %c3 step %c1 {{\n{STORE}\n}}").tolist() == [-1, 7, -1]


def test_resolve_with_error_raises():
    body = """%i = arith.constant 5 : i64
      %n = memref.dim %data, %c0 : memref<5x4xi32>
      %p, %v = gather.resolve %i within %n bounds error : i64"""
    with pytest.raises(BoundsError, match=r"index 5 is out of range \[-5, 4\]"):
        run(body)


def test_order_of_iterations_is_shuffled():
    body = """gather.loop a(%i) = %c0 to %c3 step %c1 {
        %wide = arith.index_cast %i : index to i64
        %x = memref.load %data[%i, %c0] : memref<5x4xi32>
        memref.store %x, %out[%c0] : memref<3xi32>
      }"""
    assert len({run(body, seed=seed)[0] for seed in range(12)}) > 1


def test_masked_load_touches_nothing_where_its_mask_is_false():
    body = """%five = arith.addi %c3, %c3 : index
      %no = arith.constant false
      %x = gather.masked_load %data[%five, %five], %no : memref<5x4xi32> -> i32
      memref.store %x, %out[%c0] : memref<3xi32>"""
    assert run(body)[0] == 0


def test_summing_loop_wraps_at_64_bits():
    body = """%big = arith.constant 9223372036854775807 : i64
      %sum = gather.loop a(%i) = %c0 to %c3 step %c1 sum {
        gather.yield %big : i64
      }
      %want = arith.constant 9223372036854775805 : i64
      %same = arith.cmpi eq, %sum, %want : i64
      %x = arith.extui %same : i1 to i32
      memref.store %x, %out[%c0] : memref<3xi32>"""
    assert run(body)[0] == 1


def test_memory_that_a_loop_frees_is_taken_anew_in_each_iteration():
    body = """%seven = arith.constant 7 : i32
      gather.loop a(%i) = %c0 to %c3 step %c1 {
        %own = memref.alloc(%c3) : memref<?xi32>
        memref.store %seven, %own[%i] : memref<?xi32>
        %x = memref.load %own[%i] : memref<?xi32>
        memref.store %x, %out[%i] : memref<3xi32>
        memref.dealloc %own : memref<?xi32>
      }"""
    assert run(body).tolist() == [7, 7, 7]


def test_module_without_gather_is_an_internal_error():
    with pytest.raises(InternalError, match="the module has no function @gather"):
        interpret(parse_module("func.func @other() {\n  func.return\n}"), DATA, INDICES, DATA)


def test_elements_that_are_no_integers_move_as_bytes():
    text = """func.func @gather(%data: memref<2xf32>, %indices: memref<1xi64>, %out: memref<2xf32>) {
      %c0 = arith.constant 0 : index
      %x = memref.load %data[%c0] : memref<2xf32>
      memref.store %x, %out[%c0] : memref<2xf32>
      func.return
    }"""
    out = np.zeros(2, np.float32)
    interpret(parse_module(text), np.array([0.5, 1], np.float32), np.array([0]), out)
    assert out.tolist() == [0.5, 0]


def test_parallel_loops_that_follow_each_other_may_write_one_element():
    loop = """gather.loop parallel {name}(%i) = %c0 to %c3 step %c1 {{
        %{name} = arith.subi %{last}, %i : index
        memref.store %x, %out[%{place}] : memref<3xi32>
      }}\n"""
    body = "%x = arith.constant 7 : i32\n%last = arith.addi %c1, %c1 : index\n"
    body += loop.format(name="a", last="last", place="i") + loop.format(name="b", last="last", place="b")
    assert run(body).tolist() == [7, 7, 7]


def test_order_of_points_is_shuffled():
    body = """%none = arith.constant 0 : i64
      %last = scf.parallel (%i) = (%c0) to (%c3) step (%c1) init (%none) -> i64 {
        %wide = arith.index_cast %i : index to i64
        scf.reduce(%wide : i64) {
        ^bb0(%a: i64, %b: i64):
          scf.reduce.return %b : i64
        }
      }
      %place = arith.index_cast %last : i64 to index
      %x = arith.constant 7 : i32
      memref.store %x, %out[%place] : memref<3xi32>"""
    assert len({tuple(run(body, seed=seed)) for seed in range(12)}) > 1


def test_array_that_is_not_contiguous_is_an_internal_error():
    text = """func.func @gather(%data: memref<5x4xi32>, %indices: memref<3xi64>, %out: memref<3xi32>) {
      func.return
    }"""
    with pytest.raises(InternalError, match=r"^data of .*: byte strides .* where the code takes memref<"):
        interpret(parse_module(text), DATA[:, ::-1], INDICES, np.zeros(3, np.int32))


def test_unsigned_index_is_read_as_it_is():
    body = """%i = arith.constant -3 : i8
      %n = memref.dim %data, %c0 : memref<5x4xi32>
      %p, %v = gather.resolve %i within %n bounds {bounds} unsigned : i8
      %x = memref.load %data[%p, %c0] : memref<5x4xi32>
      memref.store %x, %out[%c0] : memref<3xi32>"""
    assert run(body.format(bounds="clip"))[0] == DATA[4, 0]
    assert run(body.format(bounds="wrap"))[0] == DATA[253 % 5, 0]


@pytest.mark.parametrize(("least", "is_rejected"), [(5, False), (6, True)])
def test_axis_below_the_size_that_the_code_holds_for_is_rejected(least, is_rejected):
    data = "memref<1x1x5x4xi32> {gather.view = #gather.view<batch[], outer[], axis[0], inner[1]>}"
    indices = "memref<1x3xi64> {gather.view = #gather.view<batch[], indices[0]>}"
    out = "memref<1x1x3x1xi32> {gather.view = #gather.view<batch[], outer[], indices[0], inner[]>}"
    holds_for = f"attributes {{gather.min_axis_sizes = array<i64: {least}>}}"
    text = f"func.func @gather(%data: {data}, %indices: {indices}, %out: {out}) {holds_for} {{\nfunc.return\n}}"
    module = parse_module(text)
    if not is_rejected:
        return interpret(module, DATA, INDICES, np.zeros(3, np.int32))
    with pytest.raises(BoundsError, match="the axis has size 5, but this code holds for 6 and more"):
        interpret(module, DATA, INDICES, np.zeros(3, np.int32))


@pytest.mark.parametrize("offset", [0, 8, 12])
@pytest.mark.parametrize(("given", "alignment"), [("", 16), (", alignment = 8 : i64", 8), (", alignment = 1 : i64", 1)])
def test_a_streaming_store_must_be_aligned_as_it_says(offset, given, alignment):
    module = parse_module(
        f"""
        func.func @gather(%data: memref<4xi32>, %indices: memref<1xi64>, %out: memref<4xi32>) {{
          %c0 = arith.constant 0 : index
          %v = vector.load %data[%c0] : memref<4xi32>, vector<4xi32>
          vector.store %v, %out[%c0] {{nontemporal = true{given}}} : memref<4xi32>, vector<4xi32>
          func.return
        }}
        """
    )
    room = np.zeros(96, np.uint8)
    start = -room.ctypes.data % 64 + offset
    out = room[start : start + 16].view(np.int32)
    data, indices = np.arange(4, dtype=np.int32), np.zeros(1, np.int64)
    if offset % alignment:
        with pytest.raises(InternalError, match=f"a streaming store at .*, which is no multiple of {alignment} bytes"):
            interpret(module, data, indices, out)
        return
    interpret(module, data, indices, out)
    assert out.tolist() == [0, 1, 2, 3]
