"""The cache on disk: what is in it, and one that is shared, deleted, full or unwritable gives right results."""

import errno
import hashlib
import json
import os
import pwd
import shutil
import warnings
from pathlib import Path

import pytest

import gathernest as gn
from gathernest.kernels.host.cache_folder import WARNED, CacheWarning
from gathernest.kernels.runtime.disk_cache import cache_root, load_kernel

from .conftest import DATA, INDICES, WANTED


def test_a_kernel_is_built_once_and_then_comes_from_disk(counted):
    first, second = counted.load(), counted.load()
    assert (first.from_cache, second.from_cache, counted.builds) == (False, True, 1)
    assert counted.run(first) == counted.run(second) == WANTED


def test_a_kernel_from_disk_carries_its_program_and_pipeline(counted):
    first, second = counted.load(), counted.load()
    assert second.program == first.program
    assert second.pipeline == first.pipeline


def test_an_entry_is_a_source_file_with_a_sidecar_and_machine_code(counted):
    loaded = counted.load()
    entry = counted.entry()
    sidecar = json.loads((entry / "kernel.json").read_text())
    assert (entry / "kernel.py").read_text() == loaded.program.source
    assert sidecar["key"] == counted.plan.key
    assert sidecar["pipeline"].startswith("normalize-gather,")
    assert (entry / "kernel.o").read_bytes().startswith(b"\x7fELF")
    assert len(list(entry.iterdir())) == 3


def test_making_an_entry_leaves_no_other_file(counted):
    counted.load()
    assert [path for path in cache_root().iterdir() if path.name.startswith(".")] == []


def test_entries_made_under_a_generous_umask_are_used(counted):
    before = os.umask(0)
    try:
        counted.load()
    finally:
        os.umask(before)
    assert counted.load().from_cache


@pytest.mark.thorough
def test_a_full_disk_is_one_warning_and_kernels_in_memory(python, tmp_path):
    (tmp_path / "temporary").mkdir()
    code = """
        import resource, signal, warnings
        import gathernest as gn
        gn.gather([1.5, 2.5], [1])  # which imports what leaves files of bytecode
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for bounds in ("zero", "clip"):
                print(gn.gather([1.5, 2.5, 3.5], [2, 0, 9], bounds=bounds).tolist())
        print([str(warning.message).partition(" (")[2] for warning in caught])
    """
    folders = {"GATHERNEST_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "temporary")}
    assert python(code, **folders).splitlines() == [
        "[3.5, 1.5, 0.0]",
        "[3.5, 1.5, 3.5]",
        "['File too large); kernels are compiled anew in every process. "
        "Set GATHERNEST_CACHE_DIR to a folder that can be written']",
    ]
    assert list((tmp_path / "temporary").iterdir()) == []
    assert len(list((tmp_path / "cache").glob("*/*"))) == 1


def test_a_full_disk_does_not_keep_a_sound_entry_from_being_read(counted, at_event):
    counted.load()
    failed = []

    def fill(*arguments):
        failed.append(arguments)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("utime", "mkdir", "rename"):
        at_event(f"os.{name}", fill)
    loaded = counted.load()
    assert failed
    assert (loaded.from_cache, counted.run(loaded)) == (True, WANTED)


def test_without_a_home_folder_kernels_are_made_in_memory(forget, monkeypatch, tmp_path):
    def unknown(user: int):
        raise KeyError(f"getpwuid(): uid not found: {user}")

    for variable in ("HOME", "XDG_CACHE_HOME", "GATHERNEST_CACHE_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    WARNED.clear()
    monkeypatch.chdir(tmp_path)
    with pytest.warns(CacheWarning, match="no home folder is known: HOME is not set") as caught:
        results = [gn.gather(DATA, INDICES, bounds=bounds).tolist() for bounds in ("error", "clip")]
    assert results == [WANTED, [3.0, 1.0, 4.0, 0.0]]
    assert len([warning for warning in caught if issubclass(warning.category, CacheWarning)]) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_entry_deleted_while_it_is_read_is_made_again(counted, at_event):
    counted.load()
    entry = counted.entry()
    at_event("open", lambda path, *_: shutil.rmtree(entry) if entry.exists() and str(entry) in str(path) else None)
    assert counted.run(counted.load()) == WANTED
    assert counted.builds == 2


@pytest.mark.thorough
def test_a_cache_folder_deleted_while_a_kernel_is_made_gives_the_kernel_all_the_same(counted, monkeypatch):
    build = counted.build

    def delete_then_build():
        shutil.rmtree(cache_root(), ignore_errors=True)
        return build()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        loaded = load_kernel(counted.plan.key, counted.plan.pipeline, delete_then_build)
    assert counted.run(loaded) == WANTED


def test_an_entry_that_another_process_made_meanwhile_is_kept(counted):
    build = counted.build

    def lose_the_race():
        counted.load()
        return build()

    loaded = load_kernel(counted.plan.key, counted.plan.pipeline, lose_the_race)
    assert counted.run(loaded) == WANTED
    assert counted.load().from_cache
    assert len(list(cache_root().iterdir())) == 1


def test_an_entry_appears_whole(counted, at_event):
    appeared = []

    def watch(source, target, *_):
        appeared.append((sorted(path.name for path in Path(source).iterdir()), Path(target).exists()))

    at_event("os.rename", watch)
    counted.load()
    assert (["kernel.json", "kernel.o", "kernel.py"], False) in appeared


def test_keys_whose_digests_begin_alike_have_entries_of_their_own(counted):
    digests: dict[str, str] = {}
    for number in range(10_000):
        begin = hashlib.sha256(f"key {number}".encode()).hexdigest()[:4]
        if begin in digests:
            break
        digests[begin] = f"key {number}"
    for key in (digests[begin], f"key {number}"):
        assert not load_kernel(key, counted.plan.pipeline, counted.build).from_cache
    assert counted.builds == 2


def test_an_entry_in_a_folder_that_cannot_be_written_is_used(counted):
    counted.load()
    before = {path: path.stat().st_mode for path in (cache_root(), counted.entry())}
    for path in before:
        path.chmod(0o555)
    try:
        loaded = counted.load()
    finally:
        for path, mode in before.items():
            path.chmod(mode)
    assert (loaded.from_cache, counted.run(loaded)) == (True, WANTED)


def test_a_file_in_the_place_of_an_entry_does_no_harm(counted, monkeypatch):
    WARNED.clear()
    counted.load()
    entry = counted.entry()
    shutil.rmtree(entry)
    entry.write_text("in the way")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        assert counted.run(counted.load()) == WANTED


@pytest.mark.parametrize("place", ["under a file", "in /proc", "of too long a name"])
def test_an_unwritable_folder_gives_one_warning_and_right_results(tmp_path, forget, monkeypatch, place):
    WARNED.clear()
    (tmp_path / "file").write_text("")
    places = {"under a file": tmp_path / "file" / "cache", "in /proc": Path("/proc/gathernest")}
    folder = places.get(place, tmp_path / ("n" * 300))
    with gn.knobs.scope(cache_dir=folder), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert gn.gather(DATA, INDICES).tolist() == WANTED
        assert gn.gather(DATA, INDICES, bounds="clip").tolist() == [3.0, 1.0, 4.0, 0.0]
        assert gn.gather(DATA, INDICES).tolist() == WANTED
    ours = [warning for warning in caught if issubclass(warning.category, CacheWarning)]
    assert len(ours) == 1
    assert f"the cache folder {folder}" in str(ours[0].message)
    assert "Set GATHERNEST_CACHE_DIR to a folder that can be written" in str(ours[0].message)


SMALL = "print([gn.gather([1.5, 2.5, 3.5], [2, 0]).tolist() for _ in range(3)])"
# A call on all threads, one that rounds its sums, and a C function.
OTHERS = """
print(float(gn.gather(table := np.ones((2_000_000, 4), np.float32), many := np.arange(0, 2_000_000, 8))[-1, -1]))
print(gn.gather_reduce(np.ones((3, 4), np.float16), np.array([[0, 1], [2, 2]]))[1, 1])
print(gn.compile("gather", table, many).address > 0)
"""


@pytest.mark.parametrize("calls", [SMALL, pytest.param(OTHERS, marks=pytest.mark.thorough)], ids=["small", "others"])
def test_a_process_with_a_warm_cache_compiles_nothing(python, tmp_path, calls):
    """The second process imports neither Numba, nor xDSL, nor what writes LLVM IR."""
    names = ("numba", "xdsl", "gathernest.lowering.native.word_code")
    lines = "import sys", "import numpy as np", "import gathernest as gn", calls
    code = "\n".join([*lines, f"print([name for name in {names} if name in sys.modules])"])
    folders = {"GATHERNEST_CACHE_DIR": str(tmp_path / "shared"), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    *results, compiled = python(code, **folders).splitlines()
    assert compiled == str(list(names))
    assert python(code, **folders).splitlines() == [*results, "[]"]
    assert not (tmp_path / "numba").exists()


@pytest.mark.thorough
def test_processes_that_share_an_empty_folder_at_once_all_give_right_results(python, tmp_path):
    folder = tmp_path / "shared"
    code = """
        import warnings
        warnings.simplefilter("error")
        import gathernest as gn
        data = [1.5, 2.5, 3.5]
        print([gn.gather(data, [2, 0, 9], bounds=bounds).tolist() for bounds in ("zero", "clip", "wrap")])
    """
    processes = [python.start(code, GATHERNEST_CACHE_DIR=str(folder)) for _ in range(3)]
    wanted = "[[3.5, 1.5, 0.0], [3.5, 1.5, 3.5], [3.5, 1.5, 1.5]]"
    assert [python.finish(process).strip() for process in processes] == [wanted] * 3
    entries = [path for root in folder.iterdir() for path in root.iterdir()]
    assert not [path for path in entries if path.name.startswith(".")]
    keys = [json.loads((entry / "kernel.json").read_text())["key"] for entry in entries]
    others = [
        key for key in keys if not key.startswith("gather ")
    ]  # code of calls, where a process met a kernel on disk
    assert len(keys) - len(others) == 3
    assert all(key.startswith("native code: fast call of ") for key in others) and len(others) <= 1


def test_the_default_folder_is_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("GATHERNEST_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root().parent == tmp_path / "gathernest"
