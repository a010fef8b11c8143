"""What names an entry of the cache: the passes, sources, versions and machine that make its code."""

import shutil
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from gathernest.kernels.host import cpu
from gathernest.kernels.runtime.disk_cache import cache_root
from gathernest.lowering import pipeline, registry
from gathernest.lowering.passes.loops.fold_constants import FoldConstants
from gathernest.lowering.registry import NAMES, module_of, own_passes

EXPERIMENT = """
from dataclasses import dataclass

from xdsl.passes import ModulePass


@dataclass(frozen=True)
class Cse(ModulePass):
    name = "cse"

    def apply(self, ctx, op):
        pass
"""


@pytest.fixture
def experiment(tmp_path, monkeypatch) -> Callable[[str], None]:
    """Return a function that puts a pass of another module, with that source, in the place of `cse`."""

    def use(source: str) -> None:
        (tmp_path / "experiment.py").write_text(source)
        module = types.ModuleType("experiment")
        module.__file__ = str(tmp_path / "experiment.py")
        monkeypatch.setitem(sys.modules, "experiment", module)
        exec(source, module.__dict__)
        known = {**own_passes(), "cse": lambda: module.Cse}
        monkeypatch.setattr(pipeline, "own_passes", lambda: known)
        registry._version_and_source.cache_clear()

    yield use
    registry._version_and_source.cache_clear()


def test_a_kernel_that_another_packages_pass_made_is_not_served_without_it(counted, experiment, monkeypatch):
    experiment(EXPERIMENT)
    assert not counted.load().from_cache
    assert counted.load().from_cache
    experiment(EXPERIMENT + "# and more\n")
    assert not counted.load().from_cache
    monkeypatch.setattr(pipeline, "own_passes", own_passes)
    assert not counted.load().from_cache
    assert counted.builds == 3


def test_a_kernel_that_a_replaced_pass_of_ours_made_is_not_served_without_it(counted, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(FoldConstants, "apply", lambda self, ctx, op: None)
        counted.load()
    assert not counted.load().from_cache


def test_a_kernel_that_other_passes_made_is_not_served_without_them(new_counted, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(registry, "LOOP_NAMES", ("lower-nest-to-loops",))
        new_counted().load()
    assert not new_counted().load().from_cache


def test_other_facts_about_the_machine_make_another_folder(monkeypatch):
    here = cache_root()
    monkeypatch.setattr(cpu.platform, "machine", lambda: "another")
    cpu.code_fingerprint.cache_clear()
    try:
        assert cache_root() != here
    finally:
        monkeypatch.undo()
        cpu.code_fingerprint.cache_clear()


ROOMS = ("ir", "lowering", "kernels", "interop", "playground", "tools")


@pytest.fixture(scope="module")
def copied_package(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    for room in ROOMS:
        shutil.copytree(cpu.PACKAGE / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def fingerprint_after(monkeypatch, copied_package) -> Callable[[str], str]:
    """Return a function that gives the fingerprint of this package with a line added to one of its files."""

    def after(name: str) -> str:
        changed = copied_package / name
        sound = changed.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(cpu, "PACKAGE", copied_package)
            changed.write_bytes(sound + b"changed = 1\n")
            try:
                return cpu.code_fingerprint.__wrapped__()
            finally:
                changed.write_bytes(sound)

    return after


@pytest.fixture(scope="module")
def fingerprint(copied_package) -> str:
    """The fingerprint of this package as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu, "PACKAGE", copied_package)
        return cpu.code_fingerprint.__wrapped__()


MAKE_CODE = (
    "ir/semantics.py",
    "ir/dialects/nest_ops.py",
    "ir/modules/operator_module.py",
    "lowering/registry.py",
    "lowering/native/parallel_for.py",
    "lowering/nest/queries.py",
    "lowering/numba/vector_intrinsics.py",
    "lowering/passes/schedule/split_loops.py",
    "kernels/runtime/compile.py",
)
MAKE_NO_CODE = (
    "ir/interpreters/interpreter.py",
    "ir/modules/pseudocode.py",
    "playground/drawings.py",
    "lowering/passes/operators/constant_gathers.py",
    "lowering/schedule/gather_heuristic.py",
    "lowering/native/fast_call.py",
    "kernels/gather.py",
    "tools/cli.py",
)


@pytest.mark.parametrize("name", MAKE_CODE)
def test_a_change_of_what_makes_code_makes_another_folder(fingerprint_after, fingerprint, name):
    assert fingerprint_after(name) != fingerprint


@pytest.mark.parametrize("name", MAKE_NO_CODE)
def test_a_change_of_what_makes_no_code_keeps_the_folder(fingerprint_after, fingerprint, name):
    assert fingerprint_after(name) == fingerprint


def test_every_module_that_compiling_imports_is_in_the_fingerprint():
    grimp = pytest.importorskip("grimp")
    graph, compiling = grimp.build_graph("gathernest"), "gathernest.kernels.runtime.compile"
    for module in graph.modules:
        # The rest of kernels says what to compile, and the key holds that.
        if module.startswith("gathernest.kernels.") and not compiling.startswith(module):
            graph.remove_module(module)
    numba_modules = ("compiler", "intrinsics", "vector_intrinsics")
    native = ("parallel_for", "fast_call_ir", "c_function_ir", "threads.thread_team_ir")
    roots = {compiling, *(f"gathernest.lowering.native.{name}" for name in native)}
    roots |= {f"gathernest.lowering.numba.{name}" for name in numba_modules}
    roots |= {f"gathernest.lowering.passes.{module_of(name)}" for name in NAMES}
    needed = roots.union(*(graph.find_upstream_modules(root) for root in roots))
    hashed = {path for pattern in cpu.MAKES_CODE for path in cpu.PACKAGE.glob(pattern)}
    files = {cpu.PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py") for module in needed}
    assert {path for path in files if path.is_file()} - hashed == set()


def test_every_pattern_of_the_fingerprint_finds_sources():
    assert [pattern for pattern in cpu.MAKES_CODE if not list(cpu.PACKAGE.glob(pattern))] == []


def test_another_version_of_xdsl_makes_another_folder(monkeypatch):
    before = cpu.code_fingerprint.__wrapped__()
    versions = cpu._installed_versions
    monkeypatch.setattr(cpu, "_installed_versions", lambda names: [*versions(names), "another"])
    assert cpu.code_fingerprint.__wrapped__() != before
