"""Calls that machine code must leave alone: what differs in anything that matters, and `out` over the inputs."""

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.runtime import call_cache
from gathernest.lowering.native.call_layout import Slot, place_in_table

from .conftest import DATA, INDICES, WANTED, find


@pytest.mark.parametrize("kind", [bool, float, object, str])
def test_indices_that_are_no_integers_are_rejected_where_others_were_found(warm, kind):
    with pytest.raises(gn.IndexTypeError, match="indices must be integers"):
        gn.gather(DATA, np.ones(3).astype(kind))


class Labelled(np.ndarray):
    """A subclass that would notice."""

    def __array_finalize__(self, parent):
        self.label = getattr(parent, "label", None)


def test_subclasses_give_plain_arrays_and_masked_ones_are_rejected(warm):
    assert find(DATA.view(Labelled), INDICES) is None
    assert find(DATA, INDICES.view(Labelled)) is None
    assert find(DATA, INDICES, warm.view(Labelled)) is None
    for _ in range(3):
        assert type(gn.gather(DATA.view(Labelled), INDICES.view(Labelled))) is np.ndarray
    with pytest.raises(gn.InvalidGatherError, match="masked"):
        gn.gather(np.ma.masked_array(DATA), INDICES)


def test_an_out_of_a_subclass_is_returned_as_it_is(warm):
    out = warm.view(Labelled)
    for _ in range(3):
        assert gn.gather(DATA, INDICES, out=out) is out
        assert out.tobytes() == WANTED.tobytes()


def test_a_read_only_out_is_rejected_and_untouched_where_a_writeable_one_was_found(warm):
    warm[...] = 7
    warm.flags.writeable = False
    with pytest.raises(gn.InvalidGatherError, match="writeable"):
        gn.gather(DATA, INDICES, out=warm)
    assert (warm == 7).all()
    warm.flags.writeable = True
    assert gn.gather(DATA, INDICES, out=warm).tobytes() == WANTED.tobytes()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.empty((3, 5), "f4"), "shape"),
        (np.empty((4, 3), "f4"), "shape"),
        (np.empty(12, "f4"), "shape"),
        (np.empty((3, 4), "i4"), "dtype"),
        (np.empty((3, 4), ">f4"), "dtype"),
        ([[0.0]], "ndarray"),
        (np.broadcast_to(np.float32(0), (3, 4)), "read-only|broadcast"),
    ],
)
def test_a_wrong_out_is_rejected_where_a_right_one_was_found(warm, out, message):
    for _ in range(2):
        with pytest.raises(gn.InvalidGatherError, match=message):
            gn.gather(DATA, INDICES, out=out)


def test_data_and_indices_may_be_read_only(warm):
    data, indices = DATA.copy(), INDICES.copy()
    data.flags.writeable = indices.flags.writeable = False
    assert find(data, indices).tobytes() == WANTED.tobytes()


def test_strided_outs_are_each_found_with_their_own_strides(warm):
    outs = [np.zeros((6, 4), "f4")[::2], np.zeros((4, 3), "f4").T, np.zeros((3, 8), "f4")[:, 1::2], warm[::-1]]
    for _ in range(4):
        for out in outs:
            out[...] = -1
            assert gn.gather(DATA, INDICES, out=out) is out
            assert np.array_equal(out, WANTED)
    assert find(DATA, INDICES, outs[0]) is outs[0]


def test_an_out_that_overlaps_itself_is_never_found(warm):
    window = np.lib.stride_tricks.as_strided(np.zeros(9, "f4"), (3, 4), (8, 4))
    for _ in range(3):
        with pytest.raises(gn.InvalidGatherError, match="by which some overlap"):
            gn.gather(DATA, INDICES, out=window)
    assert find(DATA, INDICES, window) is None


@pytest.mark.parametrize(
    "other",
    [
        {"data": DATA.view("i4")},
        {"data": np.asfortranarray(DATA)},
        {"data": np.zeros((6, 4), "f4")},
        {"data": np.zeros((5, 4, 1), "f4")},
        {"indices": INDICES.view("u8")},
        {"indices": np.zeros(6, "i8")[::2]},
        {"indices": np.zeros((3, 1), "i8")},
        {"out": None},
        {"out": np.zeros((3, 4), "i4")},
        {"out": np.zeros((4, 3), "f4").T},
        {"out": np.zeros((3, 5), "f4")},
        {"axis": 1},
        {"batch_dims": 1},
        {"bounds": "clip"},
    ],
    ids=lambda other: f"{next(iter(other))}-{next(iter(other.values()))!r:.9}",
)
def test_a_call_that_hashes_like_another_is_not_taken_for_it(warm, other):
    own = {"data": DATA, "indices": INDICES, "out": warm, "axis": 0, "batch_dims": 0, "bounds": "error"}
    words, hash_of = call_cache.CALLS.native(), call_cache.CALLS._hash
    assert words is not None
    hashes = [hash_of(*(own | changed).values()) for changed in ({}, other)]
    slot = next(words[place : place + 7] for place in call_cache.CALLS._calls if words[place] == hashes[0])
    place = place_in_table(words, [hashes[1]])
    words[place : place + 7] = [hashes[1], *slot[1:]]
    assert find(**(own | other)) is None
    words[place : place + 7] = slot
    assert find(**own) is warm
    if place not in call_cache.CALLS._calls:  # the table would not forget it
        words[place + Slot.CALL] = 0


# overlap


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("offset", range(-14, 22))
def test_an_out_at_any_distance_from_data_gets_the_right_rows(warm, offset, step):
    memory = np.arange(80, dtype=np.float32)
    data = memory[24:44].reshape(5, 4)
    out = memory[24 + offset : 36 + offset].reshape(3, 4)[::step]
    apart = offset <= -12 or offset >= 20
    for _ in range(2):  # the first prepares `out` of these strides
        gn.gather(DATA, INDICES, out=np.zeros(12, "f4").reshape(3, 4)[::step])
        gn.gather(DATA, INDICES, out=np.zeros(12, "f4").reshape(3, 4)[::step])
    wanted = data[INDICES]
    assert (find(data, INDICES, out) is not None) == apart
    memory[24:44] = np.arange(24, 44)
    wanted = data[INDICES]
    assert gn.gather(data, INDICES, out=out) is out
    assert out.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("offset", range(-14, 5))
def test_an_out_at_any_distance_from_indices_gets_the_right_rows(offset):
    data = np.arange(20).reshape(5, 4)
    for _ in range(3):
        gn.gather(data, INDICES, out=np.zeros((3, 4), np.int64))
    memory = np.zeros(48, np.int64)
    indices, out = memory[20:23], memory[20 + offset : 32 + offset].reshape(3, 4)
    indices[:] = INDICES
    wanted = data[INDICES]
    found = find(data, indices, out)
    assert (found is not None) == (offset <= -12 or offset >= 3)
    indices[:] = INDICES
    assert gn.gather(data, indices, out=out) is out
    assert out.tobytes() == wanted.tobytes()


def test_an_out_between_the_rows_of_data_is_not_taken_for_one_apart():
    memory = np.arange(80, dtype=np.float32).reshape(10, 8)
    data, out = memory[::2, :4], memory[1:7:2, :4]
    for _ in range(3):
        assert gn.gather(data, INDICES, out=out).tobytes() == data[INDICES].tobytes()


# errors


def test_an_index_outside_is_the_same_error_and_leaves_out_untouched(warm):
    for indices in (np.array([0, 5, 1]), np.array([0, -6, 1]), np.array([9, 9, 9])):
        call_cache.CALLS.forget()
        with pytest.raises(gn.BoundsError) as slow:
            gn.gather(DATA, indices)
        for _ in range(3):
            gn.gather(DATA, INDICES)
            gn.gather(DATA, INDICES, out=warm)
        warm[...] = 7
        assert find(DATA, INDICES) is not None
        with pytest.raises(gn.BoundsError) as fast:
            gn.gather(DATA, indices)
        with pytest.raises(gn.BoundsError) as with_out:
            find(DATA, indices, warm)
        assert str(fast.value) == str(slow.value) == str(with_out.value)
        assert (warm == 7).all()


def test_a_result_too_large_for_memory_is_a_memory_error(warm, monkeypatch):
    data = np.broadcast_to(np.zeros(1, "u1"), (3, 1 << 46))
    for _ in range(2):
        with pytest.raises(MemoryError):
            gn.gather(data, INDICES[:1])
