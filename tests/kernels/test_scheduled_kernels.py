"""Kernels with vectors, streaming stores, buffers and prefetches, at the ends of what they read and write."""

import threading

import numpy as np
import pytest

import gathernest as gn


@pytest.mark.parametrize("out_given", [False, True])
def test_kernel_for_rows_of_some_bytes_rejects_others_and_still_serves_its_own(out_given):
    rows = [np.arange(10 * size, dtype=np.float32).reshape(10, size) for size in (16, 17, 16)]
    indices = np.array([3, -1, 0])
    kernel = gn.compile("gather", rows[0], indices, schedule="specialize-inner{bytes=64},vectorize-inner{lanes=8}")
    for data in rows:
        out = np.empty((3, data.shape[1]), data.dtype) if out_given else None
        if data.shape[1] == 16:
            assert kernel(data, indices, out).tolist() == data[indices].tolist()
            continue
        with pytest.raises(gn.ScheduleError, match="the schedule is for rows of 64 bytes, got rows of 68"):
            kernel(data, indices, out)


def test_few_elements_with_an_index_each_whose_number_is_part_of_the_code():
    data = np.random.default_rng(3).integers(-999, 999, (700, 9)).astype(np.int16)
    indices = np.random.default_rng(4).integers(-9, 9, (700, 6))
    kernel = gn.compile("gather_elements", data, indices, 1)
    assert kernel.schedule.row_bytes == 12
    expected, out = np.take_along_axis(data, indices, 1), np.full((700, 6), 7, np.int16)
    assert kernel(data, indices).tobytes() == expected.tobytes()
    assert gn.gather_elements(data, indices[:, :5], axis=1).tobytes() == expected[:, :5].tobytes()
    indices[699, 5] = 9
    with pytest.raises(gn.BoundsError, match=r"at position \(699, 5\) of indices"):
        kernel(data, indices, out)
    assert (out == 7).all()


def test_the_largest_buffer_fits_on_the_stack_of_a_thread():
    schedule = "tile-loops{loops=indices sizes=65536},hoist-indices{before=indices_i}"
    data, indices = np.arange(1000, dtype=np.float32), np.arange(70_000) % 1000
    kernel, results = gn.compile("gather", data, indices, schedule=schedule), list[np.ndarray]()
    size_before = threading.stack_size(512 * 1024)
    try:
        worker = threading.Thread(target=lambda: results.append(kernel(data, indices)))
        worker.start()
        worker.join()
    finally:
        threading.stack_size(size_before)
    assert results[0].tolist() == data[indices].tolist()


GATHERED = {
    "error": ("int64", {}),
    "clip": ("int32", {}),
    "unchecked": ("uint8", {}),
    "staged": ("int64", {"schedule": "tile-loops{loops=indices sizes=16},hoist-indices{before=indices_i}"}),
    "prefetched": ("int64", {"ahead": "prefetch{what=rows loop=indices ahead=2 locality=2},stream-stores"}),
    "unrolled": ("int16", {"ahead": "unroll{loop=indices_rest factor=2}"}),
}


@pytest.mark.draw(3)
@pytest.mark.parametrize("name", GATHERED)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_gathered_lanes_are_the_loaded_ones(name, dtype):
    index_dtype, how = GATHERED[name]
    steps = [how.get("schedule", ""), "vectorize-inner{lanes=4},gather-lanes", how.get("ahead", "")]
    data = np.arange(3 * 90).astype(dtype).reshape(3, 90)[:, ::2]
    picks = np.random.default_rng(1).integers(0 if name == "unchecked" else -45, 45, (3, 38))
    picks = picks.astype(index_dtype, order="F" if name == "clip" else "C")
    bounds = name if name in ("clip", "unchecked") else "error"
    options = {"axis": 1, "batch_dims": 1, "bounds": bounds, "schedule": ",".join(filter(None, steps))}
    kernel = gn.compile("gather", data, picks, **options)
    places = np.clip(picks, 0, 44) if name == "clip" else picks.astype(np.int64)
    assert kernel(data, picks).tolist() == np.take_along_axis(data, places, 1).tolist()
    assert ("= gather_" in kernel.source) == (name != "clip")
    if bounds == "error":
        picks[2, 37] = 45
        with pytest.raises(gn.BoundsError, match=r"at position \(2, 37\) of indices"):
            kernel(data, picks)


def test_lanes_that_have_no_form_as_vectors_are_loaded():
    kernel = gn.compile("gather", "50xf32", "40xi64", bounds="wrap", schedule="vectorize-inner{lanes=4},gather-lanes")
    data, indices = np.arange(50, dtype=np.float32), np.arange(40) * 7 - 120
    assert kernel(data, indices).tolist() == data[indices % 50].tolist()
    assert "= gather_" not in kernel.source
