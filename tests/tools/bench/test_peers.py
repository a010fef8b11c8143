"""The adapters of real runtimes: each gives the plain result in each of its ways, and says what it cannot run.

A runtime that is not installed is skipped, by name: `pip install 'gathernest[peers]'` installs all of them.
"""

import importlib.util
import json
import os
import sys
from dataclasses import replace
from types import ModuleType
from unittest import mock

import numpy as np
import pytest

import gathernest as gn
from gathernest.tools.bench import peers
from gathernest.tools.bench.cases import SUITE, Case
from gathernest.tools.bench.measure import enter
from gathernest.tools.bench.peers import expected

SMALL = 9
INSTALLED = {
    "torch": ("torch",),
    "onnxruntime": ("onnxruntime", "onnx"),
    "openvino": ("openvino",),
    "tensorflow": ("tensorflow",),
    "jax": ("jax",),
}


@pytest.fixture(autouse=True)
def environment_as_before():
    """Take back what adapters say to TensorFlow and JAX by variables of this process."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture(autouse=True)
def torch_as_before():
    """Give torch back its threads and its gradients: its adapter takes both for the whole process."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    threads, has_gradients = torch.get_num_threads(), torch.is_grad_enabled()
    yield
    torch.set_num_threads(threads)
    torch.set_grad_enabled(has_gradients)


def adapter(name: str):
    for package in INSTALLED[name]:
        pytest.importorskip(package, reason=f"the adapter of {name} needs {package}, which is not installed")
    candidate = peers.PEERS[name]()
    candidate.start(1)
    return candidate


@pytest.mark.parametrize("into", ["out", "new"])
@pytest.mark.parametrize("name", INSTALLED)
def test_adapter_gives_the_plain_result_in_each_of_its_ways(name, into):
    candidate = adapter(name)
    ran = 0
    for case in (replace(case.cut(SMALL), into=into) for case in SUITE):
        if candidate.rejection(case) is not None:
            continue
        inputs = case.make(sets=2)
        ways = candidate.variants(case, inputs)
        assert ways
        for way, calls in ways.items():
            assert len(calls) == 2
            for number, call in enumerate(calls):
                inputs.out.fill(1)
                got = candidate.result(call(), inputs.out)
                wanted = expected(case, inputs, number)
                assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), f"{case.name}: {way}"
                assert got.tobytes() == wanted.tobytes(), f"{case.name}: {way}"
                if into == "new":  # and the next call leaves it as it is
                    assert not any(
                        np.shares_memory(got, other) for other in (candidate.result(call(), got), inputs.out)
                    )
        ran += 1
    assert ran >= 30


REJECTIONS = [
    ("torch", Case("x", "rows", (5, 4), (3,), index_dtype="int16"), "has no int16 indices"),
    ("onnxruntime", Case("x", "rows", (5, 4), (3,), dtype="complex128"), "has no complex128"),
    ("onnxruntime", Case("x", "rows", (5, 4), (3,), index_dtype="uint8"), "has no uint8 indices"),
    ("onnxruntime", Case("x", "rows", (5, 4), (3,), "gather_grad"), "has no gradients"),
    (
        "onnxruntime",
        Case("x", "rows", (2, 3, 4), (2, 3), axis=2, batch_dims=1),
        "has no batch_dims for an axis after them",
    ),
    (
        "onnxruntime",
        Case("x", "rows", (5, 4), (3, 2), "gather_nd", index_dtype="int32"),
        "has no int32 indices for GatherND",
    ),
    ("openvino", Case("x", "rows", (5, 4), (3,), dtype="float64"), "computes in float32 and int32, not in float64"),
    ("openvino", Case("x", "rows", (5, 4), (3,), "gather_grad"), "has no gradients"),
    ("openvino", Case("x", "rows", (5, 4), (3,), index_dtype="int8"), "has no int8 indices"),
    ("tensorflow", Case("x", "rows", (5, 4), (3, 4), "gather_elements"), "has no operator for it"),
    ("tensorflow", Case("x", "rows", (5, 4), (3,), index_dtype="int8"), "has no int8 indices"),
]


@pytest.mark.parametrize(("name", "case", "text"), REJECTIONS)
def test_adapter_says_what_it_cannot_run(name, case, text):
    assert adapter(name).rejection(case) == text


@pytest.fixture
def without(monkeypatch):
    """Make packages look as if they were not installed."""

    def hide(*names: str) -> None:
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)

    return hide


def test_peer_that_is_asked_for_and_not_installed_is_an_error(without):
    without("tensorflow")
    with pytest.raises(gn.GathernestError) as rejected:
        enter(["numpy", "tensorflow"], 1)
    assert str(rejected.value) == (
        "--peers names peers that cannot run: tensorflow is not installed: pip install tensorflow-cpu"
    )


def test_peers_that_are_not_installed_are_named_in_one_line(without):
    without("torch", "onnxruntime", "openvino", "tensorflow", "jax")
    entrants = enter([], 1)
    assert [candidate.name for candidate in entrants.candidates] == ["gathernest", "numpy"]
    assert entrants.notes == [
        "without torch, onnxruntime, openvino, tensorflow, jax, not installed here: pip install 'gathernest[peers]'"
    ]
    assert entrants.versions["numpy"] == np.__version__


@pytest.mark.parametrize(
    ("statement", "note"),
    [
        ("import onnx.no_such", "without onnxruntime, which needs onnx: pip install onnx"),
        (
            r"raise RuntimeError('built for another machine\nand more')",
            "without onnxruntime, which cannot be imported: RuntimeError: built for another machine",
        ),
    ],
)
def test_peer_that_is_installed_and_does_not_work_is_named_with_its_reason(
    without, monkeypatch, tmp_path, statement, note
):
    without("torch", "onnxruntime", "openvino", "tensorflow", "jax")
    monkeypatch.delitem(sys.modules, "onnxruntime")
    monkeypatch.setitem(sys.modules, "onnx", ModuleType("onnx"))
    monkeypatch.setitem(sys.modules, "onnx.helper", ModuleType("onnx.helper"))
    monkeypatch.setitem(sys.modules, "onnx.no_such", None)
    (tmp_path / "onnxruntime.py").write_text(statement)
    monkeypatch.syspath_prepend(tmp_path)
    assert enter([], 1).notes[1:] == [note]


def test_own_kernels_are_peers_on_one_thread_and_without_a_pass(gathernest):
    words = ("--peers", "one-thread,without-vectorize-inner,without-tile-loops,without-all", "--case", "rows-64B")
    ended = gathernest("bench", "--quick", "--rounds", "1", "--threads", "2", *words, "--json", "-", "--no-new-results")
    (case,) = json.loads(ended.out)["cases"]
    assert ended.status == 0
    assert set(case["ratios"]) == {"one-thread", "without-vectorize-inner", "without-all"}
    assert case["rejected"]["without-tile-loops"].startswith("the nest has no loop 'indices_o'")


def test_pass_that_a_schedule_has_not_is_told():
    lines = peers.WithoutPass("group-indices")
    assert lines.rejection(Case("rows", "rows", (40, 64), (50,))) == "the schedule has no such pass"
    assert lines.rejection(Case("sums", "gradient", (40, 4), (5,), "gather_grad")) == "has a schedule of another kind"
