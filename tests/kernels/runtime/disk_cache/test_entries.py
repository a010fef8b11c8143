"""The cache on disk: shared, damaged, deleted, unwritable. Whatever happens to it, the results are right."""

import errno
import hashlib
import json
import os
import pwd
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host.cache_folder import WARNED, CacheWarning
from gathernest.kernels.runtime.disk_cache import cache_root, load_kernel
from gathernest.lowering.numba import compiler

DATA, INDICES = np.arange(10.0), np.array([3, 1, 4, -1])
WANTED = [3.0, 1.0, 4.0, 9.0]


def only_entry() -> Path:
    entries = [path for path in cache_root().iterdir() if not path.name.startswith(".")]
    assert len(entries) == 1
    return entries[0]


def machine_code(entry: Path, suffix: str) -> Path:
    return next((entry / "__pycache__").glob(f"*.{suffix}"))


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
    entry = only_entry()
    sidecar = json.loads((entry / "kernel.json").read_text())
    assert (entry / "kernel.py").read_text() == loaded.program.source
    assert sidecar["key"] == counted.plan.key
    assert sidecar["pipeline"].startswith("normalize-gather,")
    assert {path.suffix for path in (entry / "__pycache__").iterdir()} == {".nbi", ".nbc"}


def test_making_an_entry_leaves_no_other_file(counted):
    counted.load()
    assert [path for path in cache_root().iterdir() if path.name.startswith(".")] == []


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def write(text: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(text) and None


DAMAGES = {
    "the source is truncated": lambda entry: truncate(entry / "kernel.py"),
    "the source is empty": lambda entry: write("")(entry / "kernel.py"),
    "the source says something else": lambda entry: write("def gather(*_): return 0\n")(entry / "kernel.py"),
    "the source is missing": lambda entry: (entry / "kernel.py").unlink(),
    "the source is not text": lambda entry: (entry / "kernel.py").write_bytes(b"\xff\xfe\x00"),
    "the sidecar is truncated": lambda entry: truncate(entry / "kernel.json"),
    "the sidecar is garbage": lambda entry: write("{not json")(entry / "kernel.json"),
    "the sidecar is a list": lambda entry: write("[]")(entry / "kernel.json"),
    "the sidecar is empty": lambda entry: write("{}")(entry / "kernel.json"),
    "the sidecar lists no files": lambda entry: write('{"files": {}}')(entry / "kernel.json"),
    "the sidecar is missing": lambda entry: (entry / "kernel.json").unlink(),
    "the machine code is truncated": lambda entry: truncate(machine_code(entry, "nbc")),
    "a byte of the machine code is flipped": lambda entry: flip_a_byte(machine_code(entry, "nbc")),
    "the machine code is missing": lambda entry: machine_code(entry, "nbc").unlink(),
    "Numba's index is truncated": lambda entry: truncate(machine_code(entry, "nbi")),
    "Numba's index is empty": lambda entry: machine_code(entry, "nbi").write_bytes(b""),
    "Numba's index is missing": lambda entry: machine_code(entry, "nbi").unlink(),
    "the machine code's folder is missing": lambda entry: shutil.rmtree(entry / "__pycache__"),
    "a foreign file lies in it": lambda entry: write("x")(entry / "foreign.txt"),
    "the entry is empty": lambda entry: [shutil.rmtree(entry), entry.mkdir()],
    "a file is a folder": lambda entry: [(entry / "kernel.json").unlink(), (entry / "kernel.json").mkdir()],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_made_again(counted, damage):
    counted.load()
    DAMAGES[damage](only_entry())
    mended = counted.load()
    assert (mended.from_cache, counted.builds, counted.run(mended)) == (False, 2, WANTED)
    again = counted.load()
    assert (again.from_cache, counted.builds, counted.run(again)) == (True, 2, WANTED)


def rewrite(entry: Path, **changes: object) -> None:
    """Change a side file and keep it well-formed."""
    path = entry / "kernel.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a file another user's, or this process one of another user."""
    if os.geteuid() == 0:
        os.chown(path, 12345, 12345)
    else:
        user = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: user)


def link_away(path: Path) -> None:
    elsewhere = path.with_name(path.name + ".elsewhere")
    path.rename(elsewhere.parent.parent / elsewhere.name)
    path.symlink_to(elsewhere.parent.parent / elsewhere.name)


def replace_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


WRONG_SIDE_FILES = {
    "another kernel's key": {"key": "another"},
    "no parameters": {"parameters": []},
    "other parameters": {"parameters": [{"name": "x", "kind": "size", "argument": 0, "dim": 7}] * 3},
    "another pipeline": {"pipeline": 7},
}


@pytest.mark.parametrize("changes", WRONG_SIDE_FILES)
def test_a_side_file_that_is_well_formed_but_wrong_is_made_again(counted, changes):
    counted.load()
    rewrite(only_entry(), **WRONG_SIDE_FILES[changes])
    mended = counted.load()
    assert (mended.from_cache, counted.builds, counted.run(mended)) == (False, 2, WANTED)


NOT_OURS = ("kernel.py", "kernel.json", "__pycache__", ".")


@pytest.mark.parametrize("part", NOT_OURS)
def test_what_belongs_to_another_user_is_never_run(counted, monkeypatch, part):
    counted.load()
    give_away(only_entry() / part, monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        mended = counted.load()
    assert (mended.from_cache, counted.builds, counted.run(mended)) == (False, 2, WANTED)


@pytest.mark.parametrize("part", NOT_OURS)
@pytest.mark.parametrize("mode", [0o020, 0o002], ids=["group", "all"])
def test_what_another_user_can_write_is_never_run(counted, part, mode):
    counted.load()
    path = only_entry() / part
    path.chmod(path.stat().st_mode | mode)
    mended = counted.load()
    assert (mended.from_cache, counted.builds, counted.run(mended)) == (False, 2, WANTED)
    assert counted.load().from_cache


@pytest.mark.parametrize("part", NOT_OURS)
def test_links_are_not_followed(counted, part):
    counted.load()
    entry = only_entry()
    link_away(entry if part == "." else entry / part)
    mended = load_kernel(counted.plan.key, counted.plan.pipeline, counted.build)
    assert (mended.from_cache, counted.builds, counted.run(mended)) == (False, 2, WANTED)


ENDLESS = {
    "a device": replace_by(lambda path: os.mknod(path, 0o644 | stat.S_IFCHR, os.makedev(1, 5))),
    "a pipe": replace_by(os.mkfifo),
    "a terabyte": lambda path: os.truncate(path, 1 << 40),
}


@pytest.mark.parametrize("kind", ENDLESS if os.geteuid() == 0 else list(ENDLESS)[1:])
@pytest.mark.parametrize("part", ["kernel.py", "kernel.json"])
def test_a_file_without_end_is_not_read(counted, kind, part):
    counted.load()
    ENDLESS[kind](only_entry() / part)
    mended = counted.load()
    assert (mended.from_cache, counted.builds, counted.run(mended)) == (False, 2, WANTED)


def test_a_folder_that_belongs_to_another_user_is_not_used(counted, monkeypatch):
    counted.load()
    WARNED.clear()
    give_away(cache_root(), monkeypatch)
    with pytest.warns(
        CacheWarning, match=r"cannot be written \(\w+ belongs to user \d+, not to this one \(\d+\) or root\)"
    ):
        loaded = counted.load()
    assert (loaded.from_cache, counted.run(loaded)) == (False, WANTED)


def test_an_entry_that_cannot_be_removed_is_not_run(counted, monkeypatch):
    counted.load()
    WARNED.clear()
    truncate(only_entry() / "kernel.py")

    def reject(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "rename", reject)
    with pytest.warns(
        CacheWarning, match=r"cannot be removed \(Operation not permitted\), and must be: digests do not hold"
    ):
        loaded = counted.load()
    assert (loaded.from_cache, counted.run(loaded)) == (False, WANTED)


def test_entries_made_under_a_generous_umask_are_used(counted):
    before = os.umask(0)
    try:
        counted.load()
    finally:
        os.umask(before)
    assert counted.load().from_cache


def test_a_full_disk_is_one_warning_and_kernels_in_memory(python, tmp_path):
    (tmp_path / "temporary").mkdir()
    code = """
        import resource, signal, warnings
        import gathernest as gn
        gn.gather([1.5, 2.5], [1])  # which imports what leaves files of bytecode
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for bounds in ("zero", "clip", "wrap"):
                print(gn.gather([1.5, 2.5, 3.5], [2, 0, 9], bounds=bounds).tolist())
        print([str(warning.message).partition(" (")[2] for warning in caught])
    """
    folders = {"GATHERNEST_CACHE_DIR": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "temporary")}
    assert python(code, **folders).splitlines() == [
        "[3.5, 1.5, 0.0]",
        "[3.5, 1.5, 3.5]",
        "[3.5, 1.5, 1.5]",
        "['File too large); kernels are compiled anew in every process. "
        "Set GATHERNEST_CACHE_DIR to a folder that can be written']",
    ]
    assert list((tmp_path / "temporary").iterdir()) == []
    assert len(list((tmp_path / "cache").glob("*/*"))) == 1


def test_a_disk_that_fills_up_keeps_sound_entries(counted, monkeypatch):
    counted.load()
    WARNED.clear()

    def fill(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "TemporaryFile", fill)  # Numba tries the folder with one before it reads
    with pytest.warns(CacheWarning, match="Numba can make no file beside"):
        loaded = counted.load()
    assert counted.run(loaded) == WANTED
    monkeypatch.undo()
    assert only_entry().is_dir()


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


def test_an_entry_deleted_while_it_is_read_is_made_again(counted, monkeypatch):
    counted.load()
    load_file = compiler.load_file

    def delete_then_load(program, path, name):
        if not path.parent.name.startswith("."):
            shutil.rmtree(path.parent)
        return load_file(program, path, name)

    monkeypatch.setattr(compiler, "load_file", delete_then_load)
    assert counted.run(counted.load()) == WANTED


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


def test_an_entry_appears_whole(counted, monkeypatch):
    rename, appeared = os.rename, []

    def watched(source, target):
        appeared.append((sorted(path.name for path in Path(source).iterdir()), Path(target).exists()))
        rename(source, target)

    monkeypatch.setattr(os, "rename", watched)
    counted.load()
    assert (["__pycache__", "kernel.json", "kernel.py"], False) in appeared


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


def test_an_entry_that_cannot_be_written_is_used_from_a_copy(counted, monkeypatch):
    counted.load()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    loaded = counted.load()
    assert loaded.from_cache
    assert counted.run(loaded) == WANTED
    assert only_entry() not in Path(loaded.entry.py_func.__code__.co_filename).parents


def test_a_file_in_the_place_of_an_entry_does_no_harm(counted, monkeypatch):
    WARNED.clear()
    counted.load()
    entry = only_entry()
    shutil.rmtree(entry)
    entry.write_text("in the way")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        assert counted.run(counted.load()) == WANTED


@pytest.mark.parametrize("place", ["under a file", "in /proc"])
def test_an_unwritable_folder_gives_one_warning_and_right_results(tmp_path, forget, monkeypatch, place):
    WARNED.clear()
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "cache" if place == "under a file" else Path("/proc/gathernest")
    with gn.knobs.scope(cache_dir=folder), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert gn.gather(DATA, INDICES).tolist() == WANTED
        assert gn.gather(DATA, INDICES, bounds="clip").tolist() == [3.0, 1.0, 4.0, 0.0]
        assert gn.gather(DATA, INDICES).tolist() == WANTED
    ours = [warning for warning in caught if issubclass(warning.category, CacheWarning)]
    assert len(ours) == 1
    assert f"the cache folder {folder}" in str(ours[0].message)
    assert "Set GATHERNEST_CACHE_DIR to a folder that can be written" in str(ours[0].message)


def test_numba_cache_dir_does_not_move_the_machine_code(counted, tmp_path, monkeypatch):
    elsewhere = tmp_path / "numba"
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(elsewhere))
    counted.load()
    assert machine_code(only_entry(), "nbc").is_file()
    assert not elsewhere.exists()
    assert str(elsewhere) == numba.config.CACHE_DIR


def test_the_environment_variable_numba_cache_dir_does_not_move_the_machine_code(python, tmp_path):
    folders = {"GATHERNEST_CACHE_DIR": str(tmp_path / "ours"), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    code = """
        import sys, gathernest as gn
        print(gn.gather([1.5, 2.5, 3.5], [2, 0]).tolist(), "xdsl" in sys.modules)
    """
    assert python(code, **folders).strip() == "[3.5, 1.5] True"
    assert python(code, **folders).strip() == "[3.5, 1.5] False"
    assert list((tmp_path / "ours").rglob("*.nbc"))
    assert not (tmp_path / "numba").exists()


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
    assert len(entries) == 3
    assert not [path for path in entries if path.name.startswith(".")]


def test_the_default_folder_is_the_users_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("GATHERNEST_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root().parent == tmp_path / "gathernest"
