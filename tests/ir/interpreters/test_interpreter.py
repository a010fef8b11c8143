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


@pytest.mark.parametrize("place", ["%c3, %c0", "%c0, %c3"])
def test_load_outside_its_array_is_an_internal_error(place):
    subscripts = place.replace("%c3", "%six")
    body = f"%six = arith.addi %c3, %c3 : index\n%x = memref.load %data[{subscripts}] : memref<5x4xi32>"
    with pytest.raises(InternalError, match="is outside an array of shape"):
        run(body)


def test_store_outside_its_array_is_an_internal_error():
    with pytest.raises(InternalError, match=r"access at \(3,\) is outside an array of shape \(3,\)"):
        run("%x = arith.constant 7 : i32\nmemref.store %x, %out[%c3] : memref<3xi32>")


@pytest.mark.parametrize("type_", ["memref<3x4xi32>", "memref<20xi32>"])
def test_array_of_another_shape_is_an_internal_error(type_):
    with pytest.raises(InternalError, match=r"^data of .*: sizes 5x4 where the code takes "):
        run("", data=type_)


def test_array_of_other_strides_is_an_internal_error():
    with pytest.raises(InternalError, match=r"^data of .*: byte strides .* where the code takes memref<"):
        run("", data="memref<5x4xi32, strided<[77, 1]>>")


RACE = """{loop} {{
        %x = arith.constant 7 : i32
        memref.store %x, %out[%c1] : memref<3xi32>
      }}"""


@pytest.mark.parametrize(
    "loop", ["gather.loop parallel a(%i) = %c0 to %c3 step %c1", "scf.parallel (%i) = (%c0) to (%c3) step (%c1)"]
)
def test_race_of_parallel_iterations_is_an_internal_error(loop):
    with pytest.raises(InternalError, match="two iterations of a parallel loop write the element at"):
        run(RACE.format(loop=loop))


def test_sequential_iterations_may_write_one_element():
    assert run(RACE.format(loop="gather.loop a(%i) = %c0 to %c3 step %c1")).tolist() == [-1, 7, -1]


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


def test_resolve_with_error_raises():
    body = """%i = arith.constant 5 : i64
      %n = memref.dim %data, %c0 : memref<5x4xi32>
      %p, %v = gather.resolve %i within %n bounds error : i64"""
    with pytest.raises(BoundsError, match=r"index 5 is out of range \[-5, 4\]"):
        run(body)


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


@pytest.mark.parametrize(
    "use",
    [
        "%x = memref.load %own[%c0] : memref<?xi32>",
        "memref.store %seven, %own[%c0] : memref<?xi32>",
        "%x = vector.load %own[%c0] : memref<?xi32>, vector<2xi32>",
        "memref.prefetch %own[%c0], read, locality<3>, data : memref<?xi32>",
        "%view = memref.collapse_shape %own [[0]] : memref<?xi32> into memref<?xi32>\n"
        "memref.prefetch %view[%c0], read, locality<3>, data : memref<?xi32>",
        "memref.dealloc %own : memref<?xi32>",
    ],
)
def test_use_of_memory_behind_its_dealloc_is_an_internal_error(use):
    body = f"""%seven = arith.constant 7 : i32
      %own = memref.alloc(%c3) : memref<?xi32>
      memref.store %seven, %own[%c0] : memref<?xi32>
      memref.dealloc %own : memref<?xi32>
      {use}"""
    with pytest.raises(InternalError, match="uses memory that is freed"):
        run(body)


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


def test_unknown_operation_is_an_internal_error():
    with pytest.raises(InternalError, match=r"the interpreter does not know arith\.divsi"):
        run("%x = arith.divsi %c3, %c1 : index")


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


def test_negative_subscript_is_an_internal_error():
    body = "%low = arith.subi %c0, %c1 : index\n%x = memref.load %data[%low, %c0] : memref<5x4xi32>"
    with pytest.raises(InternalError, match=r"access at \(-1, 0\) is outside an array of shape \(5, 4\)"):
        run(body)


def test_race_of_the_iterations_of_an_outer_parallel_loop_is_an_internal_error():
    body = """%x = arith.constant 7 : i32
      gather.loop parallel a(%i) = %c0 to %c3 step %c1 {
        gather.loop parallel b(%j) = %c0 to %c3 step %c1 {
          memref.store %x, %out[%j] : memref<3xi32>
        }
      }"""
    with pytest.raises(InternalError, match="two iterations of a parallel loop write the element at"):
        run(body)


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
