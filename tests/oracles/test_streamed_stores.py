"""Rows and runs by non-temporal stores, into an out at every offset in a line: not a byte more or less."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import gathernest as gn
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.modules.context import verify_module
from gathernest.kernels.runtime.compile import module_of, passes_of
from gathernest.lowering.passes.schedule.stream_stores import MIN_WHOLE_BYTES
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.lowering.schedule.steps import SpecializeInner, StreamStores, VectorizeInner

DTYPES = {16: "complex128", 1: "int8", 2: "int16", 4: "float32", 8: "int64"}
OFFSETS = (*range(17), 24, 32, 40, 48, 63)
INDICES = np.array([4, 0, 4])
UNTOUCHED = 0xA5
VECTORS = [(width, size) for width in DTYPES for size in (16, 32, 64) if size // width >= 2]


def filled(oracle, shape: tuple[int, ...], width: int) -> np.ndarray:
    return oracle.fill(shape, np.dtype(DTYPES[width]))


def last_stages(kernel, known: dict[str, list[ModuleOp]]) -> list[ModuleOp]:
    """Return the stages of a kernel that interpreters run; sizes that are run-time arguments have one kernel."""
    if kernel.source not in known:
        passes, context, _ = passes_of(kernel.plan)
        module, found = module_of(kernel.plan.problem), {}
        for step in passes:
            step.apply(context, module)
            if step.name in ("stream-stores", "cse") and step.name not in found:
                verify_module(module)
                found[step.name] = module.clone()
        known[kernel.source] = [found["stream-stores"], found["cse"]]
    return known[kernel.source]


def check(kernel, stages: list[ModuleOp], data: np.ndarray, indices: np.ndarray, wanted: np.ndarray, offsets) -> None:
    """Check the kernel, and its last stages where an element of out lies at a multiple of its size."""

    def outs(offset: int):
        room = np.full(wanted.nbytes + 256, UNTOUCHED, np.uint8)
        start = -room.ctypes.data % 64 + 64 + offset
        out = room[start : start + wanted.nbytes].view(wanted.dtype).reshape(wanted.shape)
        expected = room.copy()
        expected[start : start + wanted.nbytes] = np.frombuffer(wanted.tobytes(), np.uint8)
        return room, out, expected

    for offset in offsets:
        room, out, expected = outs(offset)
        kernel(data, indices, out)
        assert room.tobytes() == expected.tobytes(), f"out at {offset}:\n{kernel.source}"
    for module, offset in zip(stages, (wanted.itemsize % 16, 16), strict=True):
        room, out, expected = outs(offset)
        interpret(module, data, indices, out)
        assert room.tobytes() == expected.tobytes(), f"out at {offset}:\n{module}"


@pytest.mark.draw(2)
@pytest.mark.parametrize(("width", "vector_bytes"), VECTORS)
def test_streamed_rows_write_the_bytes_of_out_and_no_others(oracle, width, vector_bytes):
    known: dict[str, list[ModuleOp]] = {}
    is_known = VECTORS.index((width, vector_bytes)) % 2 == 1
    whole_bytes = MIN_WHOLE_BYTES if is_known else 2 * vector_bytes
    short = () if is_known else (2 * width,)  # that end before the first aligned element
    for row_bytes in (*short, whole_bytes, 2 * vector_bytes - width, 96 + 5 * width):
        data = filled(oracle, (5, row_bytes // width), width)
        known_row = SpecializeInner(row_bytes) if is_known else None
        schedule = Schedule().put(known_row, VectorizeInner(vector_bytes // width), StreamStores())
        kernel = gn.compile("gather", data, INDICES, schedule=schedule)
        check(kernel, last_stages(kernel, known), data, INDICES, data[INDICES], OFFSETS)


@pytest.mark.draw(1)
@pytest.mark.parametrize(("width", "vector_bytes"), VECTORS[::3])
def test_streamed_runs_of_single_elements_write_the_bytes_of_out_and_no_others(oracle, width, vector_bytes):
    known: dict[str, list[ModuleOp]] = {}
    for count in (1, 2 * vector_bytes // width - 1, 96 // width + 5):
        data, indices = filled(oracle, (2, 7), width), np.arange(count) % 7
        schedule = Schedule((VectorizeInner(vector_bytes // width), StreamStores()))
        kernel = gn.compile("gather", data, indices, axis=1, schedule=schedule)
        check(kernel, last_stages(kernel, known), data, indices, data[:, indices], OFFSETS)
