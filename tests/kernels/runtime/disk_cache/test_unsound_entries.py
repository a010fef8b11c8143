"""Entries that are damaged, wrong, endless or another user's: they are never run, and are made again."""

import json
import os
import shutil
import stat
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from gathernest.kernels.host.cache_folder import WARNED, CacheWarning
from gathernest.kernels.runtime.disk_cache import cache_root, load_kernel

from .conftest import WANTED


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
    "the machine code is truncated": lambda entry: truncate(entry / "kernel.o"),
    "a byte of the machine code is flipped": lambda entry: flip_a_byte(entry / "kernel.o"),
    "the machine code is empty": lambda entry: (entry / "kernel.o").write_bytes(b""),
    "the machine code is missing": lambda entry: (entry / "kernel.o").unlink(),
    "the entry is empty": lambda entry: [shutil.rmtree(entry), entry.mkdir()],
    "a file is a folder": lambda entry: [(entry / "kernel.json").unlink(), (entry / "kernel.json").mkdir()],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_made_again(counted, damage):
    counted.load()
    DAMAGES[damage](counted.entry())
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
    rewrite(counted.entry(), **WRONG_SIDE_FILES[changes])
    mended = counted.load()
    assert (mended.from_cache, counted.builds, counted.run(mended)) == (False, 2, WANTED)


NOT_OURS = ("kernel.py", "kernel.json", "kernel.o", ".")


@pytest.mark.parametrize("part", NOT_OURS)
def test_what_belongs_to_another_user_is_never_run(counted, monkeypatch, part):
    counted.load()
    give_away(counted.entry() / part, monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        mended = counted.load()
    assert (mended.from_cache, counted.builds, counted.run(mended)) == (False, 2, WANTED)


@pytest.mark.parametrize("part", NOT_OURS)
@pytest.mark.parametrize("mode", [0o020, 0o002], ids=["group", "all"])
def test_what_another_user_can_write_is_never_run(counted, part, mode):
    counted.load()
    path = counted.entry() / part
    path.chmod(path.stat().st_mode | mode)
    mended = counted.load()
    assert (mended.from_cache, counted.builds, counted.run(mended)) == (False, 2, WANTED)
    assert counted.load().from_cache


@pytest.mark.parametrize("part", NOT_OURS)
def test_links_are_not_followed(counted, part):
    counted.load()
    entry = counted.entry()
    link_away(entry if part == "." else entry / part)
    mended = load_kernel(counted.plan.key, counted.plan.pipeline, counted.build)
    assert (mended.from_cache, counted.builds, counted.run(mended)) == (False, 2, WANTED)


ENDLESS = {
    "a device": replace_by(lambda path: os.mknod(path, 0o644 | stat.S_IFCHR, os.makedev(1, 5))),
    "a pipe": replace_by(os.mkfifo),
    "a terabyte": lambda path: os.truncate(path, 1 << 40),
}


@pytest.mark.parametrize("kind", ENDLESS if os.geteuid() == 0 else list(ENDLESS)[1:])
@pytest.mark.parametrize("part", ["kernel.py", "kernel.json", "kernel.o"])
def test_a_file_without_end_is_not_read(counted, kind, part):
    counted.load()
    ENDLESS[kind](counted.entry() / part)
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


def test_an_entry_that_cannot_be_removed_is_not_run(counted, at_event):
    counted.load()
    WARNED.clear()
    truncate(counted.entry() / "kernel.py")

    def reject(*_):
        raise PermissionError(1, "Operation not permitted")

    at_event("os.rename", reject)
    with pytest.warns(
        CacheWarning, match=r"cannot be removed \(Operation not permitted\), and must be: digests do not hold"
    ):
        loaded = counted.load()
    assert (loaded.from_cache, counted.run(loaded)) == (False, WANTED)
