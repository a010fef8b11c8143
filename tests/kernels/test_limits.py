"""Numbers and texts beyond what an argument can be: one message with what was got, shortened, and what is allowed."""

import numpy as np
import pytest

import gathernest as gn
from gathernest.tools import opt

DATA, HUGE = np.arange(4.0), 10**5000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gn.gather(DATA, [0], HUGE), "axis must be .*, of at most 64 bits, got an integer of 16610 bits"),
        (lambda: gn.gather(DATA, [0], batch_dims=HUGE), "batch_dims must be an int, of at most 64 bits"),
        (lambda: gn.gather_grad(DATA, [0] * 4, (HUGE,)), "sizes of an array must be .* of at most 64 bits"),
        (lambda: gn.gather_grad(DATA, [0] * 4, (4,), scale=HUGE), "scale must be a finite number, got an integer of"),
        (lambda: gn.gather_reduce(DATA, [[0]], padding_index=HUGE), "padding_index must be an int, of at most 64 bits"),
        (lambda: gn.gather(DATA, [0], bounds=gn.Fill(HUGE)), "cannot hold the fill value an integer of 16610 bits"),
        (lambda: gn.compile("gather", f"{'9' * 5000}xf32", "2xi64"), r"expected a whole number from 0 below 2\*\*63"),
        (lambda: gn.Schedule.parse(f"vectorize-inner{{lanes={'9' * 5000}}}"), r"must be below 2\*\*63, got 999"),
        (lambda: setattr(gn.knobs, "num_threads", HUGE), "num_threads = an integer of 16610 bits is not allowed"),
        (lambda: setattr(gn.knobs, "num_threads", 2**31), r"set it to a whole number from 1 below 2\*\*31"),
    ],
)
def test_integer_of_too_many_digits_is_rejected(call, message):
    with pytest.raises(gn.GathernestError, match=message):
        call()


def test_broadcast_sizes_beyond_all_addresses_are_rejected():
    table = np.broadcast_to(DATA[:1], (2**31, 1))
    with pytest.raises(gn.InvalidGatherError, match=r"arr, broadcast to shape .* has no addresses"):
        gn.take_along_axis(table, np.broadcast_to(np.int8(0), (1, 2**31)), 0)


@pytest.mark.parametrize("axis", [(0,), [0], np.array([0]), 0.0])
def test_axis_of_take_is_one_integer_as_in_numpy(axis):
    for take in (gn.take, gn.take_along_axis):
        with pytest.raises(gn.InvalidGatherError, match="axis must be an int, got"):
            take(DATA, np.array([0]), axis)
    assert gn.take(DATA, [0], np.array(0)) == gn.take(DATA, [0], None) == DATA[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda text: gn.gather(DATA, [0], bounds=text),
        lambda text: gn.take(DATA, [0], mode=text),
        lambda text: gn.ops[text],
        lambda text: gn.compile(text, "4xf32", "2xi64"),
        lambda text: gn.compile("gather", text, "2xi64"),
        lambda text: gn.compile("gather", "4xf32", "2xi64", schedule=text),
        lambda text: gn.take(DATA, [0], **{text: 1}),
        lambda text: gn.gather(DATA, [0], text),
        lambda text: setattr(gn.knobs, text, 1),
        lambda text: gn.load(f"{text}.txt"),
    ],
)
def test_long_text_is_shown_by_its_ends_and_its_length(call):
    with pytest.raises(gn.GathernestError, match=r"b+e* … .*e+(\.txt)?'? \(\d+ characters\)") as caught:
        call("b" * 900 + "e" * 900)
    assert len(str(caught.value)) < 1000


def test_integer_type_of_too_many_bits_is_rejected(tmp_path, capsys):
    file = tmp_path / "wide.mlir"
    file.write_text("func.func @f() { %a = arith.constant 1 : i2147483647 func.return }")
    assert opt.main([str(file)]) == 1
    assert "an integer type has at most 16777215 bits, got i2147483647" in capsys.readouterr().err


def test_open_size_is_named():
    with pytest.raises(gn.InvalidGatherError, match="'Nx4xf32' leaves the size 'N' open; write"):
        gn.ArraySpec.parse("Nx4xf32")


ROWS, PAIRS = np.zeros((4, 3), np.float32), np.zeros((2, 2), np.int64)


@pytest.mark.parametrize("value", [HUGE, np.zeros(2), memoryview(b"0"), None], ids=["huge", "array", "memory", "none"])
@pytest.mark.parametrize(
    "call",
    [
        lambda value: gn.gather(ROWS, PAIRS, bounds=value),
        lambda value: gn.gather(ROWS, PAIRS, axis=value),
        lambda value: gn.take(ROWS, PAIRS, 0, mode=value),
        lambda value: gn.take(ROWS, PAIRS, 0, negative_indices=HUGE if value is None else value),
        lambda value: gn.gather_reduce(ROWS, PAIRS, reduce=value),
        lambda value: gn.compile(value, "4xf32", "3xi64"),
        lambda value: gn.compile("gather", "4xf32", "3xi64", schedule=HUGE if value is None else value),
        lambda value: gn.step(value, "4xf32", "3xi64"),
        lambda value: gn.ops["labview.GatherND"](ROWS, PAIRS, training=value),
        lambda value: gn.ops[value],
    ],
    ids=["bounds", "axis", "mode", "negative_indices", "reduce", "compile", "schedule", "step", "training", "ops"],
)
def test_a_word_that_is_none_is_an_error_of_ours(call, value):
    with pytest.raises(gn.GathernestError, match=r"got|no operator|is not a"):
        call(value)
