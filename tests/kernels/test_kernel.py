"""`gathernest.compile` and the kernels it gives: what they serve, what they reject, and what can be read of them."""

import numpy as np
import pytest

import gathernest as gn
from gathernest.lowering.registry import PIPELINES

DATA = np.arange(2 * 5 * 3, dtype=np.float32).reshape(2, 5, 3)
INDICES = np.array([[4, -1, 0], [1, 1, 2]])
WANTED = np.stack([DATA[0, [4, 4, 0]], DATA[1, [1, 1, 2]]])
TILED = "tile-loops{loops=indices sizes=2},parallelize-loops{loops=batch,indices_o}"


@pytest.fixture(scope="module")
def kernel():
    return gn.compile("gather", DATA, INDICES, axis=1, batch_dims=1, schedule=gn.Schedule())


@pytest.mark.parametrize(
    ("data", "indices"),
    [
        (DATA, INDICES),
        (gn.ArraySpec((2, 5, 3), "float32"), gn.ArraySpec((2, 3), "int64")),
        ("2x5x3xf32", "2x3xi64"),
        (DATA.tolist(), INDICES.tolist()),
    ],
    ids=["arrays", "specs", "texts", "lists"],
)
def test_compile_takes_arrays_specs_texts_and_lists(data, indices):
    kernel = gn.compile("gather", data, indices, axis=1, batch_dims=1, schedule=gn.Schedule())
    data = DATA if kernel.problem.table.dtype == np.float32 else DATA.astype(float)
    assert (kernel(data, INDICES) == WANTED).all()


SIZES = [(batch, picks) for batch in (1, 2, 7) for picks in (1, 3, 40)]


@pytest.mark.parametrize(
    ("schedule", "batch", "picks"),
    [
        *((None, *sizes) for sizes in SIZES),
        *((gn.Schedule(), *sizes) for sizes in SIZES),
        *((TILED, *sizes) for sizes in SIZES if 1 not in sizes),
    ],
)
def test_a_kernel_serves_other_sizes(schedule, batch, picks):
    kernel = gn.compile("gather", DATA, INDICES, axis=1, batch_dims=1, bounds="clip", schedule=schedule)
    data = np.arange(batch * 9 * 4, dtype=np.float32).reshape(batch, 9, 4)
    indices = np.random.default_rng(0).integers(-3, 12, (batch, picks))
    wanted = np.stack([data[b].take(indices[b], axis=0, mode="clip") for b in range(batch)])
    assert kernel(data, indices).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("schedule", [None, gn.Schedule(), TILED], ids=["chosen", "empty", "given"])
def test_a_kernel_serves_other_layouts(schedule):
    kernel = gn.compile("gather", DATA, INDICES, axis=1, batch_dims=1, schedule=schedule)
    base = np.zeros((4, 5, 6), np.float32)
    base[::2, :, ::2] = DATA
    out = np.zeros((2, 3, 3), np.float32)[:, ::-1]
    assert kernel(base[::2, :, ::2], INDICES[::-1][::-1], out).tobytes() == WANTED.tobytes()


def test_a_kernel_serves_empty_sizes(kernel):
    assert kernel(np.zeros((0, 5, 3), np.float32), np.zeros((0, 3), int)).shape == (0, 3, 3)
    assert kernel(DATA, np.zeros((2, 0), int)).shape == (2, 0, 3)
    with pytest.raises(gn.BoundsError, match="axis 1 of data has size 0"):
        kernel(np.zeros((2, 0, 3), np.float32), INDICES)


def test_a_kernel_compiled_for_an_empty_size_serves_others():
    kernel = gn.compile("gather", "2x5x3xf32", "2x0xi64", axis=1, batch_dims=1)
    assert kernel(DATA, INDICES).tobytes() == WANTED.tobytes()
    assert "def gather(" in kernel.source


def test_a_kernel_compiled_for_foreign_byte_order_serves_it():
    indices = INDICES.astype(">i8")
    kernel = gn.compile("gather", DATA.astype(">f4"), indices, axis=1, batch_dims=1, schedule=gn.Schedule())
    assert kernel(DATA.astype(">f4"), indices).tobytes() == WANTED.astype(">f4").tobytes()


@pytest.mark.parametrize("indices", [[], np.zeros(0, np.int64), ()])
def test_a_kernel_compiled_for_no_indices_serves_some(indices):
    kernel = gn.compile("gather", np.arange(4.0), indices)
    assert kernel(np.arange(4.0), [3]).tolist() == [3]


def test_the_pipeline_is_the_default_one_with_its_schedule(kernel):
    assert kernel.pipeline == PIPELINES["default"]
    given = gn.compile("gather", DATA, INDICES, axis=1, batch_dims=1, schedule=TILED)
    assert str(given.schedule) == TILED
    assert f",{TILED}," in given.pipeline


def test_a_kernel_from_disk_has_the_same_source(forget, cache_dir):
    first = gn.compile("gather", DATA, INDICES, axis=1, batch_dims=1, schedule=gn.Schedule())
    forget()
    second = gn.compile("gather", DATA, INDICES, axis=1, batch_dims=1, schedule=gn.Schedule())
    assert second.source == first.source
    assert second(DATA, INDICES).tobytes() == WANTED.tobytes()


def test_a_schedule_that_another_layout_of_out_rules_out_says_so():
    kernel = gn.compile("gather", "20x8xf32", "5xi64", schedule="vectorize-inner{lanes=4}")
    out = np.zeros((5, 16), np.float32)[:, ::2]
    with pytest.raises(
        gn.ScheduleError, match=r"not legal for out 5x8xf32 strided<\[16, 2\]> \(.*an out that is contig"
    ):
        kernel(np.zeros((20, 8), np.float32), np.arange(5), out)
