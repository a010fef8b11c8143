"""What names an entry of the cache: the passes, sources, versions and machine that make its code."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gathernest.kernels.host import cpu
from gathernest.kernels.runtime.disk_cache import cache_root
from gathernest.lowering.passes.loops.fold_constants import FoldConstants
from gathernest.lowering.registry import NAMES, module_of


def test_a_kernel_that_a_replaced_pass_of_ours_made_is_not_served_without_it(counted, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(FoldConstants, "apply", lambda self, ctx, op: None)
        counted.load()
    assert not counted.load().from_cache


@pytest.mark.parametrize("fact", ["a setting of Numba", "a version of xDSL"])
def test_another_fact_about_what_compiles_makes_another_folder(monkeypatch, installed, fact):
    here = cache_root()
    if fact == "a setting of Numba":
        monkeypatch.setenv("NUMBA_CPU_NAME", "another")
    else:
        installed("xdsl", "99.0")
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
def change(copied_package) -> Iterator[Callable[[str], bool]]:
    """Return a function that adds a line to a file of the copy, and says whether its fingerprint is another then."""

    def fingerprint() -> str:
        cpu.code_fingerprint.cache_clear()
        return cpu.code_fingerprint(copied_package)

    def is_seen(name: str) -> bool:
        changed, before = copied_package / name, fingerprint()
        sound = changed.read_bytes()
        changed.write_bytes(sound + b"changed = 1\n")
        try:
            return fingerprint() != before
        finally:
            changed.write_bytes(sound)

    yield is_seen
    cpu.code_fingerprint.cache_clear()


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
    "lowering/schedule/choose.py",
    "lowering/native/fast_call.py",
    "kernels/gather.py",
    "tools/cli.py",
)


@pytest.mark.parametrize("name", [*MAKE_CODE, *MAKE_NO_CODE])
def test_a_change_of_what_makes_code_makes_another_folder(change, name):
    assert change(name) == (name in MAKE_CODE)


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
