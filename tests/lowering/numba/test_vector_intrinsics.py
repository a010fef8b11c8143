"""The vector operations of generated kernels against NumPy: every element width, several lanes, any address."""

import platform

import numpy as np
import pytest
from numba import njit

from gathernest.lowering.numba import intrinsics, vector_intrinsics

IS_X86 = platform.machine() in ("x86_64", "AMD64")
VECTORS = [
    f"v{lanes}xi{bits}" for bits in (8, 16, 32, 64, 128) for lanes in (2, 4, 8, 16, 32, 64) if lanes * bits <= 512
]
VECTOR = pytest.mark.parametrize("vector", VECTORS)


def operation(name: str):
    return getattr(vector_intrinsics, name)


def shape_of(vector: str) -> tuple[int, int]:
    """Return lanes and bytes an element."""
    lanes, _, bits = vector[1:].partition("xi")
    return int(lanes), int(bits) // 8


def lined_up(size_bytes: int) -> np.ndarray:
    """Return zeros whose address is a multiple of 64."""
    room = np.zeros(size_bytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size_bytes]


@pytest.mark.draw(6)
@VECTOR
@pytest.mark.parametrize("kind", ["store", "stream_anywhere"])
def test_load_and_store_move_a_vector_at_any_address(vector, kind):
    load, store = operation(f"load_{vector}"), operation(f"{kind}_{vector}")

    @njit("void(int64, int64, int64, int64)")
    def move(source, source_offset, target, target_offset):
        store(target, target_offset, load(source, source_offset))

    lanes, width = shape_of(vector)
    source, target = np.arange(80, dtype=np.uint8), np.zeros(80, np.uint8)
    move(source.ctypes.data, 3, target.ctypes.data, 5)
    expected = np.zeros(80, np.uint8)
    expected[5 : 5 + lanes * width] = source[3 : 3 + lanes * width]
    assert target.tolist() == expected.tolist()


@pytest.mark.draw(6)
@VECTOR
def test_stream_stores_a_vector_at_a_multiple_of_its_size_or_of_sixteen_bytes(vector):
    load, stream = operation(f"load_{vector}"), operation(f"stream_{vector}")

    @njit("void(int64, int64, int64)")
    def move(source, target, target_offset):
        stream(target, target_offset, load(source, 0))

    size_bytes = int(np.prod(shape_of(vector)))
    start = min(size_bytes, 16)
    source, target = np.arange(1, 65, dtype=np.uint8), lined_up(192)
    move(source.ctypes.data, target.ctypes.data, start)
    expected = np.zeros(192, np.uint8)
    expected[start : start + size_bytes] = source[:size_bytes]
    assert target.tolist() == expected.tolist()


@pytest.mark.draw(13)
@pytest.mark.draw(6)
@VECTOR
def test_join_puts_elements_in_their_order(vector):
    join, store = operation(f"join_{vector}"), operation(f"store_{vector}")
    lanes, width = shape_of(vector)
    load = getattr(intrinsics, f"load_i{8 * width}")
    elements = ", ".join(f"load(source, {place * width})" for place in reversed(range(lanes)))
    space = {"join": join, "store": store, "load": load}
    exec(f"def turn(source, target): store(target, 0, join({elements}))", space)
    turn = njit("void(int64, int64)")(space["turn"])
    source, target = np.random.default_rng(1).bytes(lanes * width), np.zeros(lanes * width, np.uint8)
    turn(np.frombuffer(source, np.uint8).ctypes.data, target.ctypes.data)
    assert target.tobytes() == np.frombuffer(source, f"V{width}")[::-1].tobytes()


@pytest.mark.draw(9)
@pytest.mark.parametrize(("name", "combine"), [("addi", np.add), ("and", np.bitwise_and), ("addf", np.add)])
@pytest.mark.parametrize("vector", [name for name in VECTORS if name.endswith(("i32", "i64", "xi8"))])
def test_lanes_are_combined_as_numpy_does(vector, name, combine):
    lanes, width = shape_of(vector)
    if name == "addf" and width < 4:
        return
    reload, store, both = operation(f"reload_{vector}"), operation(f"store_{vector}"), operation(f"{name}_{vector}")

    @njit("void(int64, int64)")
    def apply(source, target):
        store(target, 0, both(reload(target, 0), reload(source, 0)))
        store(target, 0, both(reload(target, 0), reload(source, 0)))

    rng = np.random.default_rng(4)
    drawn = np.frombuffer(rng.bytes(2 * lanes * width), f"u{width}")
    if name == "addf":
        drawn = rng.standard_normal(2 * lanes).astype(f"f{width}")
        drawn[::lanes] = -0.0
    source, target = drawn[:lanes].copy(), drawn[lanes:].copy()
    wanted = combine(combine(target, source), source)
    apply(source.ctypes.data, target.ctypes.data)
    assert target.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("vector", ["v16xi8", "v16xi16", "v16xi32", "v8xi64"])
def test_parts_whose_lanes_are_set_one_by_one_make_a_vector(vector):
    lanes, width = shape_of(vector)
    part = f"v{16 // width}xi{8 * width}"
    names = {"load": part, "insert": part, "concat": vector, "store": vector}
    space = {name: operation(f"{name}_{type_}") for name, type_ in names.items()}
    parts = ", ".join(f"insert(load(source, {16 * number}), 7, 1)" for number in range(lanes * width // 16))
    exec(f"def join(source, target): store(target, 0, concat({parts}))", space)
    source, target = np.arange(lanes, dtype=f"i{width}"), np.zeros(lanes, f"i{width}")
    njit("void(int64, int64)")(space["join"])(source.ctypes.data, target.ctypes.data)
    source[1 :: 16 // width] = 7
    assert target.tolist() == source.tolist()


def test_a_gather_reads_nothing_for_lanes_outside():
    load, store, wrap = operation("load_v4xi64"), operation("store_v4xi32"), operation("wrap_v4xi64")
    broadcast, below, gather = operation("broadcast_v4xi64"), operation("ult_v4xi64"), operation("gather_inside_v4xi32")

    @njit("void(int64, int64, int64, int64)")
    def read(data, indices, size, out):
        places = wrap(load(indices, 0), broadcast(size))
        store(out, 0, gather(data, places, below(places, broadcast(size))))

    data, out = np.arange(10, 15, dtype=np.int32), np.zeros(4, np.int32)
    for indices, expected in (([0, 4, -1, -5], [10, 14, 14, 10]), ([5, -6, 2**63 - 1, -(2**63)], [0] * 4)):
        places = np.array(indices)
        read(data.ctypes.data, places.ctypes.data, 5, out.ctypes.data)
        assert out.tolist() == expected


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_true_lanes_are_counted(lanes):
    load, less, count = (
        operation(f"{name}_v{lanes}xi{bits}") for name, bits in (("load", 64), ("slt", 64), ("count", 1))
    )

    @njit("int64(int64, int64)")
    def how_many(left, right):
        return count(less(load(left, 0), load(right, 0)))

    right = np.zeros(lanes, np.int64)
    for number in range(2**lanes):
        left = -np.array([number >> lane & 1 for lane in range(lanes)], np.int64)
        assert how_many(left.ctypes.data, right.ctypes.data) == number.bit_count()


def test_what_a_loop_has_stored_is_loaded_again():
    load, reload, store, add = map(operation, ("load_v8xi32", "reload_v8xi32", "store_v8xi32", "addi_v8xi32"))

    @njit("void(int64, int64, int64, int64)")
    def increase(source, target, again, times):
        for _ in range(times):
            store(target, 0, add(reload(again, 0), load(source, 0)))

    source, target = np.arange(8, dtype="i4"), np.ones(8, "i4")
    increase(source.ctypes.data, target.ctypes.data, target.ctypes.data, 100)
    assert target.tolist() == [1 + 100 * element for element in range(8)]


@pytest.mark.parametrize("lanes", [2, 4])
def test_broadcast_repeats_both_halves_of_16_bytes(lanes):
    store, broadcast = operation(f"store_v{lanes}xi128"), operation(f"broadcast_v{lanes}xi128")
    load = intrinsics.load_i128

    @njit("void(int64, int64)")
    def repeat(source, target):
        store(target, 0, broadcast(load(source, 0)))

    source, target = np.arange(16, dtype=np.uint8), np.zeros(16 * lanes, np.uint8)
    repeat(source.ctypes.data, target.ctypes.data)
    assert target.tobytes() == source.tobytes() * lanes


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_stack_is_a_place_that_is_written_and_read_again(bits):
    stack = operation(f"stack_16xi{bits}")
    store, reload = getattr(intrinsics, f"store_i{bits}"), getattr(intrinsics, f"reload_i{bits}")

    @njit("int64(int64)")
    def total(count):
        result = 0
        for start in range(count):
            first, second = stack(), stack()
            for place in range(16):
                store(first, place * (bits // 8), start + place)
                store(second, place * (bits // 8), 100)  # a place of its own
            for place in range(16):
                result += reload(first, place * (bits // 8))
        return result

    assert total(3) == sum(start + place for start in range(3) for place in range(16))


def test_stack_is_not_cleared():
    stack = operation("stack_4096xi64")

    @njit("int64()")
    def address():
        return stack()

    code = "".join(address.inspect_llvm().values())
    assert "zeroinitializer" not in code
    assert address() % 64 == 0


@pytest.mark.parametrize("locality", range(4))
def test_prefetch_of_any_address_changes_nothing_and_does_not_fault(locality):
    prefetch = operation(f"prefetch_{locality}")

    @njit("void(int64, int64)")
    def ask(address, offset):
        prefetch(address, offset)

    array = np.arange(64, dtype=np.uint8)
    for address, offset in ((array.ctypes.data, 7), (0, 0), (-1, 5), (2**62, -(2**61))):
        ask(address, offset)
    assert array.tolist() == list(range(64))


@pytest.mark.parametrize(
    "name",
    [
        *("load_v8xi33", "load_v0xi32", "load_v3xi32", "load_v128xi32", "load_v1xi32", "loud_v8xi32", "load_v8xf32"),
        *("prefetch_4", "prefetch_", "stack_0xi32", "stack_8xi7", "load_i32", "nothing"),
    ],
)
def test_a_name_of_no_operation_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=f"no vector operation is called '{name}'"):
        operation(name)


@pytest.mark.skipif(not IS_X86, reason="the instructions looked for are those of x86")
@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("stream_v4xi32", "movnt"),
        ("stream_anywhere_v4xi32", "movnt"),
        ("prefetch_3", "prefetcht0"),
        ("prefetch_2", "prefetcht1"),
        ("prefetch_1", "prefetcht2"),
        ("prefetch_0", "prefetchnta"),
    ],
)
def test_assembly_has_the_instruction(name, instruction):
    run, load = operation(name), operation("load_v4xi32")
    space = {"run": run, "load": load}
    call = "run(a, b, load(a, 0))" if name.startswith("stream") else "run(a, b)"
    exec(f"def use(a, b): {call}", space)
    use = njit("void(int64, int64)")(space["use"])
    assembly = "".join(use.inspect_asm().values())
    assert instruction in assembly


@pytest.mark.skipif(not IS_X86, reason="the instructions looked for are those of x86")
def test_assembly_of_a_plain_store_goes_through_the_caches():
    store, load = operation("store_v4xi32"), operation("load_v4xi32")

    @njit("void(int64, int64)")
    def use(a, b):
        store(a, b, load(a, 0))

    assembly = "".join(use.inspect_asm().values())
    assert "movnt" not in assembly
    assert "prefetch" not in assembly
