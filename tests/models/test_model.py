"""A model as a value: what it says of itself, what it takes, and what it gives."""

import threading

import numpy as np
import pytest
from onnx.helper import make_node

import gathernest as gn

TABLE = np.arange(24, dtype=np.float32).reshape(6, 4)


@pytest.fixture
def model(load, make):
    proto = make(
        [make_node("Gather", ["w", "i"], ["rows"], name="pick"), make_node("Identity", ["x"], ["same"])],
        {"i": "Nxi64", "x": "2xf32"},
        {"rows": "Nx4xf32", "same": "2xf32"},
        {"w": TABLE},
    )
    return load(proto)


X = np.array([1, 2], np.float32)


def test_model_describes_itself(model):
    assert repr(model) == ("<gathernest model model.onnx: (i: i64[N], x: f32[2]) -> (rows: f32[N, 4], same: f32[2])>")
    assert str(model) == model.stages["dce"]
    assert list(model.stages) == ["operator", *model.pipeline.split(",")]
    assert list(model.weights) == ["w"]


def test_what_a_model_shows_cannot_be_changed(model):
    with pytest.raises(TypeError):
        model.inputs["z"] = model.inputs["i"]
    with pytest.raises(ValueError, match="read-only"):
        model.weights["w"][0] = 1


def test_outputs_share_no_memory_with_inputs_and_weights(model, load, make):
    outputs = model(i=np.array([0]), x=X)
    assert not np.shares_memory(outputs["same"], X)
    outputs["same"][:] = 9
    assert X.tolist() == [1, 2]
    views = load(
        make(
            [make_node("Reshape", ["w", "s"], ["a"]), make_node("Identity", ["a"], ["b"])],
            {},
            {"a": "24xf32", "b": "24xf32"},
            {"w": TABLE, "s": np.array([24])},
        )
    )
    first, second = views(), views()
    first["a"][:] = -1
    assert first["b"].tolist() == second["a"].tolist() == TABLE.reshape(-1).tolist()


def test_recycled_memory_of_a_result_is_handed_over_once(monkeypatch, load, make):
    monkeypatch.setattr("gathernest.kernels.host.recycled_memory.LEAST_BYTES", 16)
    copied = []
    monkeypatch.setattr(
        "gathernest.kernels.models.large_results.copied", lambda array: copied.append(array.shape) or array.copy()
    )
    nodes = [
        make_node("Gather", ["w", "i"], ["rows"]),
        make_node("Reshape", ["rows", "s"], ["flat"]),
        make_node("Slice", ["rows", "zero", "one"], ["first"]),
        make_node("Identity", ["x"], ["same"]),
    ]
    sizes = {"rows": "2x4xf32", "flat": "8xf32", "first": "1x4xf32", "same": "2x4xf32"}
    weights = {"w": TABLE, "s": np.array([8]), "zero": np.array([0]), "one": np.array([1])}
    model = load(make(nodes, {"i": "2xi64", "x": "2x4xf32"}, sizes, weights))
    x = gn.gather(TABLE, [1, 2])
    found = model(np.array([3, 0]), x)
    assert copied == [(8,), (1, 4), (2, 4)]  # all but the rows
    assert {name: array.tolist() for name, array in found.items()} == {
        "rows": TABLE[[3, 0]].tolist(),
        "flat": TABLE[[3, 0]].reshape(-1).tolist(),
        "first": TABLE[[3]].tolist(),
        "same": x.tolist(),
    }


@pytest.mark.parametrize("kind", ["f32", "u8", "bf16"])
def test_large_views_and_joined_parts_are_copied_by_kernels(monkeypatch, load, make, kind):
    copied = []
    monkeypatch.setattr("gathernest.kernels.models.large_results.LEAST_BYTES_FOR_A_KERNEL", 24)
    monkeypatch.setattr(
        "gathernest.kernels.models.large_results.gather", lambda *a, **b: copied.append(a) or gn.gather(*a, **b)
    )
    nodes = [
        make_node("Transpose", ["x"], ["turned"], perm=[2, 0, 1]),
        make_node("Expand", ["x", "s"], ["wide"]),
        make_node("Reshape", ["x", "none"], ["flat"]),
        make_node("Slice", ["x", "zero", "zero", "two"], ["nothing"]),
        make_node("Concat", ["x", "nothing", "x"], ["joined"], axis=2),
    ]
    sizes = {"turned": "4x1x3", "wide": "5x1x3x4", "flat": "12", "joined": "1x3x8"}
    proto = make(
        nodes,
        {"x": f"1x3x4x{kind}"},
        {name: f"{size}x{kind}" for name, size in sizes.items()},
        {"s": np.array([5, 1, 1, 1]), "none": np.array([-1]), "zero": np.array([0]), "two": np.array([2])},
    )
    load.checked(proto, {"x": np.arange(12).reshape(1, 3, 4).astype(load(proto).inputs["x"].dtype)})
    assert {data.shape for data, *_ in copied} >= ({(5, 1, 3, 4)} if kind == "u8" else {(4, 1, 3), (5, 1, 3, 4)})
    assert [data.shape for data, *_ in copied].count((1, 3, 4)) >= 2  # the parts of joined


def test_inputs_of_any_layout_are_read(model):
    strided = np.array([5, 9, 0, 9, -1, 9])[::2]
    assert model(i=strided, x=X[::-1])["rows"].tolist() == TABLE[[5, 0, -1]].tolist()
    assert model(i=np.zeros(0, np.int64), x=X)["rows"].shape == (0, 4)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": X}, r"input 'i' is missing; it is i64\[N\]"),
        ({"i": [0], "x": X, "ii": 1}, "the model has no input 'ii'; it has i, x; did you mean 'i'\\?"),
        ({"i": np.array([0], np.int32), "x": X}, "input 'i' must have dtype int64, got int32; convert it with .astype"),
        ({"i": np.array([[0]]), "x": X}, r"input 'i' must have rank 1 \(i64\[N\]\), got shape \(1, 1\)"),
        ({"i": [0], "x": X[:1]}, r"input 'x' must have the sizes of f32\[2\], got shape \(1,\)"),
        ({"i": [0], "x": np.ma.masked_array(X, [1, 0])}, "input 'x' is a masked array, and its mask would be lost"),
        ({"i": [[1], [2, 3]], "x": X}, "input 'i' does not make an array"),
        ({"i": [0], "x": X.astype(">f4")}, "input 'x' must have dtype float32, got >f4"),
    ],
)
def test_wrong_input_is_named(model, inputs, message):
    with pytest.raises(gn.ModelError, match=message):
        model.run(inputs)


def test_index_outside_names_the_node(model):
    with pytest.raises(gn.BoundsError, match=r"node 'pick': index 6 at position \(1,\) of indices is out of range"):
        model(i=np.array([0, 6]), x=X)


def test_strings_may_come_as_numpy_strings(load, make):
    proto = make([make_node("Gather", ["s", "i"], ["y"])], {"s": "3xstr", "i": "2xi64"}, {"y": "2xstr"})
    got = load(proto)(s=np.array(["a", "bc", "d"]), i=np.array([1, 2]))["y"]
    assert (got.dtype, got.tolist()) == (np.dtype(object), ["bc", "d"])


def test_interpreted_run_gives_the_same(model):
    inputs = {"i": np.array([3, -6, 5]), "x": X}
    compiled = model.run(inputs)["rows"]
    with gn.knobs.scope(interpret=True):
        assert model.run(inputs)["rows"].tobytes() == compiled.tobytes()


def test_model_runs_from_several_threads(model):
    results = {}

    def run(number):
        indices = np.full(1000, number)
        results[number] = all((model(i=indices, x=X)["rows"] == TABLE[number]).all() for _ in range(20))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(6), True)


@pytest.mark.parametrize(("package", "suffix"), [("onnx", "onnx"), ("defusedxml", "xml")])
def test_missing_package_is_named_with_the_command(monkeypatch, tmp_path, package, suffix):
    from importlib import metadata

    from gathernest.kernels.host import dependencies

    found = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: found("no-such-package" if name == package else name))
    dependencies.require.cache_clear()
    file = tmp_path / f"model.{suffix}"
    file.touch()
    try:
        with pytest.raises(gn.DependencyError, match=rf"{package} is not installed; .* pip install 'gathernest\["):
            gn.load(file)
    finally:
        dependencies.require.cache_clear()


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
def test_a_file_that_is_not_there_is_said_before_a_package_is_asked_for(monkeypatch, tmp_path, suffix):
    monkeypatch.setattr("gathernest.kernels.models.sources.require", lambda *packages: pytest.fail("asked too early"))
    file = tmp_path / f"model.{suffix}"
    with pytest.raises(gn.ModelError) as caught:
        gn.load(file)
    assert str(caught.value) == f"{file} cannot be read: No such file or directory; check the path"


def test_import_of_the_package_and_of_load_imports_neither_onnx_nor_xdsl():
    import subprocess
    import sys

    heavy = ("onnx", "xdsl", "numba", "defusedxml")
    code = f"import sys, gathernest as gn; gn.load; print([name for name in {heavy} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
