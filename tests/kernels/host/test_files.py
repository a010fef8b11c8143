"""Files that other users could have written: what is opened and read, and what is not."""

import os
import resource
import stat

import pytest

from gathernest.kernels.host import files
from gathernest.kernels.host.files import MOST_BYTES, check_own, publish, read_own


def facts_of(mode: int, user: int = 0) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, user, 0, 0, 0, 0, 0))


def test_the_sticky_bit_lets_others_write_to_a_folder_and_not_to_a_file(tmp_path):
    check_own(tmp_path, facts_of(stat.S_IFDIR | 0o1777))
    with pytest.raises(PermissionError, match="can be written by other users, as its mode is 1666"):
        check_own(tmp_path, facts_of(stat.S_IFREG | 0o1666))


def test_another_users_file_is_rejected(tmp_path):
    other = os.geteuid() + 1
    with pytest.raises(PermissionError, match=f"belongs to user {other}, not to this one"):
        check_own(tmp_path, facts_of(stat.S_IFREG | 0o644, other))


def test_a_file_of_the_largest_size_is_read(tmp_path):
    file = tmp_path / "file"
    file.touch(0o644)
    os.truncate(file, MOST_BYTES)
    assert len(read_own(file)) == MOST_BYTES


def test_an_unsound_file_is_not_read(tmp_path, make_unsound):
    file = tmp_path / "file"
    file.touch(0o644)
    make_unsound(file)
    with pytest.raises(OSError, match=r"symbolic links|is not a plain file|by other users|more than"):
        read_own(file)


def test_a_folder_is_not_read_and_no_handle_of_it_stays_open(tmp_path):
    before = os.dup(0)  # the lowest number that is free
    os.close(before)
    with pytest.raises(IsADirectoryError):
        read_own(tmp_path)
    after = os.dup(0)
    os.close(after)
    assert after == before


def test_publishing_where_no_file_can_be_names_the_file_itself(tmp_path):
    name = "a" * 250  # the temporary name is longer, too long for a file
    with pytest.raises(OSError, match="File name too long") as caught:
        files.publish(tmp_path / name, "")
    assert caught.value.filename == str(tmp_path / name)


@pytest.mark.parametrize("write", [files.publish, files.write_file])
def test_a_file_that_has_no_room_is_named_and_not_left_behind(tmp_path, write):
    limits, file = resource.getrlimit(resource.RLIMIT_FSIZE), tmp_path / "file"
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write(file, "long" * 99)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.filename == str(file)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is no plain file, and is not replaced; name another file"):
        publish(tmp_path / "pipe", "text")
    assert (tmp_path / "pipe").is_fifo()
