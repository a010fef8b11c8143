"""Inputs that nobody expects: each gives the right answer or one clear error."""

import asyncio
import contextlib
import pickle
import sys
import tracemalloc
import types
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.runtime.call_cache import MOST_REMEMBERED

pytestmark = pytest.mark.usefixtures("serial")


def objects(*items: object) -> np.ndarray:
    """Return a vector of those very objects."""
    array = np.empty(len(items), object)
    for place, item in enumerate(items):
        array[place] = item
    return array


@pytest.mark.parametrize("item", [np.arange(3), [1, 2], (), "text", np.zeros((2, 2)), {"a": 1}], ids=repr)
def test_an_object_of_any_kind_is_gathered_as_itself(item):
    data = objects("first", item)
    assert gn.gather(data, 1).item() is item
    assert gn.gather(data, [1])[0] is item
    assert gn.gather_nd(data, [1]).item() is item
    assert gn.gather_elements(data, [1, 0])[0] is item


@pytest.mark.parametrize("item", [np.arange(3), [1, 2]], ids=repr)
def test_an_object_of_any_kind_goes_into_out_as_itself(item):
    out = np.empty((), object)
    gn.gather(objects("first", item), 1, out=out)
    assert out.item() is item


def test_many_indices_of_empty_slices_are_checked_and_give_an_empty_result():
    assert gn.gather(np.zeros((3, 0)), np.broadcast_to(np.int8(2), (2**20,))).shape == (2**20, 0)


@pytest.mark.parametrize("itemsize", [1000, 100_003])
def test_elements_of_many_bytes_are_moved_whole(itemsize):
    raw = np.random.default_rng(0).bytes(3 * itemsize)
    data = np.frombuffer(raw, f"V{itemsize}")
    assert gn.gather(data, [2, 0]).tobytes() == raw[2 * itemsize :] + raw[:itemsize]


def test_an_object_whose_array_is_itself_gathered_works():
    class Lazy:
        def __array__(self, dtype=None, copy=None):
            return gn.gather([5, 6, 7], [2, 1])

    assert gn.gather(Lazy(), [1, 0]).tolist() == [6, 7]


@pytest.mark.thorough
def test_a_forgetful_process_keeps_giving_right_results(forget):
    for size in range(2, MOST_REMEMBERED + 100):
        assert gn.gather(np.arange(size), [size - 1]).tolist() == [size - 1]
    assert 0 < len(RUNTIME.prepared) < MOST_REMEMBERED


def test_arrays_of_the_same_shapes_share_what_was_prepared(forget):
    for offset in range(3):
        gn.gather(np.arange(4) + offset, [offset])
    assert len(RUNTIME.prepared) == 1


def test_gathers_in_asyncio_threads_work():
    data = np.arange(8000.0).reshape(-1, 8)

    async def run() -> list[np.ndarray]:
        return await asyncio.gather(*(asyncio.to_thread(gn.gather, data, [number]) for number in range(4)))

    assert [result[0, 0] for result in asyncio.run(run())] == [0, 8, 16, 24]


def test_an_error_in_a_worker_process_arrives_whole():
    with ProcessPoolExecutor(1) as pool, pytest.raises(gn.BoundsError, match="index 7 at position"):
        pool.submit(gn.gather, [1, 2, 3], [7]).result()


@pytest.mark.parametrize(
    "error",
    [
        gn.BoundsError("text"),
        gn.InvalidGatherError("text"),
        gn.CompileError("text", file="kernel.py", line=3, op="memref.load"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_pickling(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_a_kernel_survives_pickling():
    kernel = gn.compile("gather", "4xf32", "2xi64")
    copy = pickle.loads(pickle.dumps(kernel))
    assert copy(np.arange(4, dtype=np.float32), [3, 1]).tolist() == [3, 1]


def test_operators_pickle_as_their_names():
    assert pickle.loads(pickle.dumps(gn.ops["onnx.Gather-13"])) is gn.ops["onnx.Gather-13"]
    assert pickle.loads(pickle.dumps(gn.ops)) is gn.ops


def test_a_cache_folder_in_the_home_folder_is_found(monkeypatch):
    monkeypatch.setenv("GATHERNEST_CACHE_DIR", "~/kernels")
    assert gn.knobs.cache_dir == Path.home() / "kernels"


@pytest.mark.parametrize("call", [gn.gather, partial(gn.schedule, "gather")], ids=["gather", "schedule"])
@pytest.mark.parametrize("name", ["data", "indices"])
def test_ragged_lists_are_rejected_by_name(name, call):
    with pytest.raises(gn.InvalidGatherError, match=f"{name} does not make an array: .*inhomogeneous"):
        call(**{"data": [1, 2], "indices": [0], name: [[1], [2, 3]]})


# The knobs by which NumPy answers, and by which kernels do.
NUMPY, KERNEL = {"compile": "never", "schedule": None}, {"compile": "now"}


@pytest.mark.parametrize("knobs", [NUMPY, KERNEL], ids=["numpy", "kernel"])
def test_more_than_32_dimensions_are_gathered_and_checked(cache_dir, knobs):
    shape = (2, 2) + (1,) * 31
    data, indices = np.arange(8.0).reshape(2, 4, *shape[2:])[:, ::2], np.ones(shape, np.int64)
    with gn.knobs.scope(**knobs):
        assert gn.gather_elements(data, indices).ravel().tolist() == [4, 6, 4, 6]
        assert gn.gather_elements_grad(data, indices, shape).ravel().tolist() == [0, 0, 4, 8]
        with pytest.raises(gn.BoundsError, match=r"index 3 at position \(0, 0, "):
            gn.gather_elements(data, 3 * indices[::-1])


@pytest.mark.parametrize("data", [np.ones((1,) * 64), np.ones((1,) * 63 + (2,))[..., ::2]], ids=["rows", "strided"])
def test_numpy_gathers_by_tuples_of_64(cache_dir, data):
    with gn.knobs.scope(**NUMPY):
        assert gn.gather_nd(data, np.zeros((2, 64), np.int64)).tolist() == [1, 1]


@pytest.mark.thorough
@pytest.mark.parametrize("bounds", ["error", "zero"])
def test_gradient_of_tuples_of_22_is_compiled(cache_dir, bounds):
    with gn.knobs.scope(**KERNEL):
        gradient = gn.gather_nd_grad([3.0, 4.0], np.zeros((2, 22), np.int8), (1,) * 21 + (2,), bounds=bounds)
    assert gradient.ravel().tolist() == [7, 0]


@pytest.mark.thorough
def test_kernels_of_arrays_of_10_strided_dimensions(cache_dir):
    data = np.arange(3**10, dtype=np.int32).reshape((3,) * 10).T
    axis = data.view(np.uint32) % 3
    with gn.knobs.scope(**KERNEL):
        assert np.array_equal(gn.gather(data, [-1, 0, 1], 4), np.take(data, [-1, 0, 1], 4))
        assert np.array_equal(gn.gather_grad(data, [-1, 0, 1], data.shape, 4), np.take(data, [1, 2, 0], 4))
        assert np.array_equal(gn.gather_elements(data, axis, 2), np.take_along_axis(data, axis.astype(np.int64), 2))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bounds", ["error", "zero"])
def test_one_tuple_of_the_largest_index_is_outside_without_a_warning(cache_dir, bounds):
    raised = contextlib.nullcontext() if bounds == "zero" else pytest.raises(gn.BoundsError, match="index 92233720")
    with raised, gn.knobs.scope(**NUMPY):
        assert gn.gather_nd(np.ones((3, 4)), np.array([2**63 - 1, 0]), bounds=bounds) == 0


@pytest.mark.draw(1)
@pytest.mark.parametrize("module", ["raise ImportError", "import os; os.getcwd()"], ids=["no coverage", "coverage"])
def test_where_the_current_folder_is_gone_kernels_are_made_unless_a_module_of_numba_needs_it(python, tmp_path, module):
    (tmp_path / "coverage.py").write_text(module)
    code = f"""
    import os
    import sys
    import tempfile

    import numpy as np

    import gathernest as gn

    sys.path.insert(0, {str(tmp_path)!r})
    os.chdir(folder := tempfile.mkdtemp())
    os.rmdir(folder)
    with gn.knobs.scope(compile="now", always_compile=True):
        try:
            print(gn.gather(np.arange(4), [3]))
        except gn.GathernestError as error:
            sys.exit(str(error).rpartition("; ")[2])
    from gathernest.kernels.runtime.compile import build_program
    from gathernest.lowering.numba.compiler import inspected_library

    try:
        inspected_library(build_program(gn.compile("gather", "4xi64", "1xi64").plan), with_lines=True)
    except gn.GathernestError as error:  # the debug information names the current folder
        print(str(error).rpartition("; ")[2])
    """
    folder = "change to a current folder that exists, or set GATHERNEST_COMPILE=never"
    if "cwd" in module:
        process = python.start(code)
        assert process.communicate()[1] == f"{folder}\n"
    else:
        assert python(code) == f"[3]\n{folder}\n"


def test_a_file_that_a_module_of_numba_lacks_is_no_lost_folder(python, tmp_path):
    (tmp_path / "coverage.py").write_text("open('/nowhere/file')")
    code = f"""
    import sys

    import numpy as np

    import gathernest as gn

    sys.path.insert(0, {str(tmp_path)!r})
    with gn.knobs.scope(compile="now", always_compile=True):
        try:
            gn.gather(np.arange(4), [3])
        except gn.DependencyError as error:
            print(error)
    """
    wanted = "No such file or directory: '/nowhere/file'; install its package again, or set GATHERNEST_COMPILE=never\n"
    assert python(code).endswith(wanted)


def test_an_error_of_many_indices_takes_few_mb():
    indices, data = np.full(1 << 23, 100, np.int8), np.zeros(101, np.int8)
    out = np.empty(indices.shape, data.dtype)
    gn.gather(data, indices, out=out)
    indices[-3:] = 101
    tracemalloc.start()
    with pytest.raises(gn.BoundsError, match=r"index 101 at position \(8388605,\) .* \(3 of 8388608 indices are out"):
        gn.gather(data, indices, out=out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_lists_are_taken_while_another_thread_imports_masked_arrays(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy.ma", types.ModuleType("numpy.ma"))
    assert gn.gather([5.0, 6.0], [1]).tolist() == [6.0]
