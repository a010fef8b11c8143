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


@pytest.mark.draw(16)
@pytest.mark.parametrize("columns", range(0, 70, 3))
@pytest.mark.parametrize("step", [1, -1, 2])
def test_vector_rows_read_nothing_beyond_the_last_row(columns, step):
    schedule = "vectorize-inner{lanes=16},prefetch{what=rows loop=indices ahead=16 lines=2 locality=3},stream-stores"
    data = np.arange(5 * columns * abs(step), dtype=np.uint8).reshape(5, columns * abs(step))[::step, ::step]
    indices = np.array([-1, 0, data.shape[0] - 1])
    kernel = gn.compile("gather", data, indices, schedule=schedule)
    out = np.empty((3, columns), np.uint8)
    assert kernel(data, indices, out).tolist() == data[indices].tolist()


@pytest.mark.parametrize("count", [0, 2, 7, 8, 9, 4096, 4099])
def test_hoisted_streamed_scalars_of_any_count(count):
    schedule = (
        "tile-loops{loops=indices sizes=4096},hoist-indices{before=indices_i},vectorize-inner{lanes=8},stream-stores"
    )
    data = np.arange(100, dtype=np.float32)
    indices = np.arange(count) % 200 - 100
    assert gn.compile("gather", data, indices, schedule=schedule)(data, indices).tolist() == data[indices].tolist()


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


@pytest.mark.parametrize("lanes", [2, 8])
def test_each_lane_of_gather_elements_has_an_index_of_its_own(lanes):
    data = np.arange(5 * 33, dtype=np.int32).reshape(5, 33)
    indices = np.random.default_rng(4).integers(-5, 5, (4, 33))
    kernel = gn.compile("gather_elements", data, indices, schedule=f"vectorize-inner{{lanes={lanes}}},stream-stores")
    assert kernel(data, indices).tolist() == np.take_along_axis(data, indices, 0).tolist()


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


def test_gathered_lanes_of_columns_have_an_index_each():
    data = np.arange(5 * 33, dtype=np.int64).reshape(5, 33)
    indices = np.random.default_rng(4).integers(-5, 5, (4, 33))
    kernel = gn.compile("gather_elements", data, indices, schedule="vectorize-inner{lanes=8},gather-lanes")
    assert "= gather_inside_v8xi64(" in kernel.source and "steps_v8xi64(" in kernel.source
    assert kernel(data, indices).tolist() == np.take_along_axis(data, indices, 0).tolist()


def test_lanes_that_have_no_form_as_vectors_are_loaded():
    kernel = gn.compile("gather", "50xf32", "40xi64", bounds="wrap", schedule="vectorize-inner{lanes=4},gather-lanes")
    data, indices = np.arange(50, dtype=np.float32), np.arange(40) * 7 - 120
    assert kernel(data, indices).tolist() == data[indices % 50].tolist()
    assert "= gather_" not in kernel.source


def test_positions_of_a_tile_of_three_loops_lie_in_one_buffer():
    schedule = (
        "tile-loops{loops=batch_0,batch_1,indices sizes=2,2,4},"
        "interchange-loops{order=batch_0_o,batch_1_o,indices_o,batch_0_i,batch_1_i,indices_i},"
        "parallelize-loops{loops=batch_0_o,batch_1_o},hoist-indices{before=batch_0_i},vectorize-inner{lanes=4}"
    )
    data = np.arange(3 * 8 * 5).reshape(3, 8, 5)[:, :4]
    indices = np.random.default_rng(6).integers(0, 5, (3, 4, 9))
    kernel = gn.compile("gather", data, indices, axis=2, batch_dims=2, schedule=schedule)
    assert kernel(data, indices).tolist() == np.take_along_axis(data, indices, 2).tolist()


def test_source_streams_and_prefetches_as_the_schedule_says():
    schedule = "vectorize-inner{lanes=8},prefetch{what=rows loop=indices ahead=4 locality=0}"
    plain = gn.compile("gather", "1000x64xf32", "500xi64", schedule=schedule).source
    streaming = gn.compile("gather", "1000x64xf32", "500xi64", schedule=f"{schedule},stream-stores").source
    assert "prefetch_0(data, " in plain
    assert "store_v8xi32(out + " in plain
    assert "stream_whole_v8xi32(out + " in streaming
    assert "stream_v4xi32(out + " in streaming
    assert " store_v8xi32(out" not in streaming
