"""`gathernest cache`: what it says of the kernels on disk, and what it removes."""

import json
import os
from pathlib import Path

import pytest

import gathernest as gn
from gathernest.kernels.runtime import disk_cache
from gathernest.kernels.runtime.disk_cache import cache_root

DAY_S = 86_400


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A cache with kernels of these versions, of 1, 2 and 3 MB, used in this order, and one of others, used first."""
    monkeypatch.setenv("GATHERNEST_CACHE_DIR", str(tmp_path))
    roots = [tmp_path / "0123456789abcdef", *[cache_root()] * 3]
    for number, root in enumerate(roots):
        entry = root / (str(number) * 24)
        (entry / "__pycache__").mkdir(parents=True)
        (entry / "__pycache__" / "code.nbc").write_bytes(bytes(max(number, 1) * 2**20))
        os.utime(entry, (1000 + number, 1000 + number))
    (tmp_path / "machines").mkdir()
    (tmp_path / "machines" / "of-this-machine.json").write_text("{}")
    (tmp_path / "tuning-cpu-8-threads.json").write_text("{}")
    return tmp_path


def kernels(folder: Path) -> list[str]:
    return sorted(path.name[:1] for path in folder.glob("*/" + "[0-9.]" * 24))


def test_info_counts_kernels_of_these_versions_and_of_others(gathernest, folder):
    for words in ((), ("info",)):
        ended = gathernest("cache", *words)
        assert (ended.status, ended.err) == (0, "")
        assert ended.out.splitlines() == [
            f"folder          {folder}",
            "these versions  3 kernels, 6.0 MB",
            "other versions  1 kernel, 1.0 MB",
            "limit           512 MB",
        ]
    assert kernels(folder) == ["0", "1", "2", "3"]


def test_json_has_every_number(gathernest, folder):
    assert json.loads(gathernest("cache", "prune", "--limit-mb", "5", "--json").out) == {
        "folder": str(folder),
        "writable": True,
        "limit_mb": 5,
        "entries": 2,
        "size_bytes": 5 * 2**20,
        "entries_of_other_versions": 0,
        "size_bytes_of_other_versions": 0,
        "compiling_processes": [],
        "removed": 2,
        "removed_bytes": 2 * 2**20,
    }


def test_prune_removes_the_least_recently_used_beyond_the_limit(gathernest, folder, monkeypatch):
    monkeypatch.setenv("GATHERNEST_CACHE_LIMIT_MB", "6")
    assert gathernest("cache", "prune").out.startswith("removed         1 kernel, 1.0 MB\n")
    assert kernels(folder) == ["1", "2", "3"]
    os.utime(next(folder.glob("*/" + "1" * 24)), (2000, 2000))
    gathernest("cache", "prune", "--limit-mb", "4")
    assert kernels(folder) == ["1", "3"]
    assert not (folder / "0123456789abcdef").exists()


def test_what_a_process_left_unfinished_is_removed_after_a_day(gathernest, folder):
    for name, age_s in ((".old", 2 * DAY_S), (".new", 0)):
        (cache_root() / name).mkdir()
        used_s = (cache_root() / name).stat().st_mtime - age_s
        os.utime(cache_root() / name, (used_s, used_s))
    gathernest("cache", "clear")
    assert [path.name for path in cache_root().iterdir()] == [".new"]


def test_clear_removes_every_kernel_and_nothing_else(gathernest, folder):
    assert gathernest("cache", "clear").out.startswith("removed         4 kernels, 7.0 MB\n")
    assert sorted(path.name for path in folder.iterdir()) == ["machines", "tuning-cpu-8-threads.json"]


def test_a_cache_without_a_folder_is_empty(gathernest, monkeypatch, tmp_path):
    monkeypatch.setenv("GATHERNEST_CACHE_DIR", str(tmp_path / "none"))
    for action in ("info", "prune", "clear"):
        ended = gathernest("cache", action)
        assert (ended.status, "these versions  0 kernels, 0.0 MB" in ended.out) == (0, True)
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_written_is_said(gathernest, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "cache"
    monkeypatch.setenv("GATHERNEST_CACHE_DIR", str(folder))
    assert f"folder          {folder} (cannot be written: Not a directory)\n" in gathernest("cache").out
    assert json.loads(gathernest("cache", "--json").out)["writable"] is False


def test_links_to_folders_are_no_kernels(gathernest, folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "precious").write_text("x")
    (cache_root() / "link").symlink_to(elsewhere)
    (folder / "fedcba9876543210").symlink_to(elsewhere)
    gathernest("cache", "clear")
    assert (elsewhere / "precious").is_file()


def test_a_kernel_that_is_made_beyond_the_limit_takes_the_place_of_the_least_used(folder, monkeypatch, forget):
    monkeypatch.setenv("GATHERNEST_CACHE_LIMIT_MB", "5")
    while len(list(cache_root().iterdir())) < disk_cache.PRUNED_EVERY - 1:
        (cache_root() / f".{len(list(cache_root().iterdir()))}").mkdir()
    kernel = gn.compile("gather", "9x4xf32", "5xi64", schedule="")
    assert disk_cache.entry_folder(kernel.key, kernel.pipeline).is_dir()
    assert "2" not in kernels(folder) and "1" not in kernels(folder)


def test_loading_a_kernel_makes_it_the_most_recently_used(folder, forget):
    kernel = gn.compile("gather", "9x4xf32", "5xi64", schedule="")
    entry = disk_cache.entry_folder(kernel.key, kernel.pipeline)
    os.utime(entry, (1, 1))
    forget()
    gn.compile("gather", "9x4xf32", "5xi64", schedule="")
    assert disk_cache.entries()[-1].folder == entry
