"""Files that other processes may read, or other users may have written: they appear whole, and are read with care."""

import errno
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

# No file of the cache is larger: the machine code of the largest kernels takes 2 MB.
MOST_BYTES = 64 * 1024**2
_WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def check_replaceable(path: Path) -> None:
    """Check that a path is free or a plain file; raises OSError for a device, a pipe or a folder."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "is no plain file, and is not replaced; name another file", str(path))


@contextmanager
def name_in_errors(path: Path | str) -> Iterator[None]:
    """Have each OSError of the body name a file: a full disk names none, and a caller knows no temporary name."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def publish(path: Path, text: str) -> None:
    """Put a file in its place whole: under a temporary name in its folder, which is made if need be, then renamed.

    Raises:
        OSError: it cannot be written, or the path is something other than a plain file; nothing is left behind.
    """
    check_replaceable(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with name_in_errors(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            with suppress(FileNotFoundError):  # it is in its place
                os.unlink(name)
            raise


def write_file(path: Path | str, text: str) -> None:
    """Write a text to a plain file in its folder; raises OSError, and then leaves no new file behind."""
    path = Path(path)
    check_replaceable(path)
    is_new = not path.exists()
    try:
        with name_in_errors(path):
            path.write_text(text, encoding="utf-8")
    except BaseException:
        if is_new:
            path.unlink(missing_ok=True)
        raise


@contextmanager
def publish_folder(folder: Path) -> Iterator[Path]:
    """Hand out a new folder, and rename it to `folder` after the body; an existing folder stays.

    Raises:
        OSError: it cannot be made; nothing is left behind.
    """
    workplace = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield workplace
        for parent, _, names in os.walk(workplace):
            os.chmod(parent, 0o755)  # whatever the umask: others may read it, and nobody else may write it
            for name in names:
                os.chmod(os.path.join(parent, name), 0o644)
        try:
            os.rename(workplace, folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def remove_folder(folder: Path, reason: object) -> None:
    """Move a folder aside, so that nobody sees half of it, and delete it.

    Raises:
        OSError: it cannot be moved; the message has `reason`, why it must be removed.
    """
    try:
        aside = Path(tempfile.mkdtemp(prefix=".removed-", dir=folder.parent))
        try:
            os.rename(folder, aside / "entry")
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except FileNotFoundError:  # another process has removed it
        pass
    except OSError as error:
        raise OSError(f"{folder.name} cannot be removed ({error.strerror}), and must be: {reason}") from error


def check_own(path: Path, facts: os.stat_result) -> None:
    """Check by `facts` that only this user and root could have written a file; raises PermissionError."""
    if not hasattr(os, "geteuid"):  # Windows, whose cache folder is the user's own
        return
    if facts.st_uid not in (0, os.geteuid()):
        raise PermissionError(f"{path.name} belongs to user {facts.st_uid}, not to this one ({os.geteuid()}) or root")
    is_sticky = stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_ISVTX  # others cannot replace its files
    if facts.st_mode & 0o022 and not is_sticky:
        raise PermissionError(
            f"{path.name} can be written by other users, as its mode is {stat.S_IMODE(facts.st_mode):o}"
        )


def check_own_folder(path: Path) -> None:
    """Check that a path is a folder, not a link, that only this user and root can write; raises OSError."""
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode):
        raise NotADirectoryError(f"{path.name} is not a folder")
    check_own(path, facts)


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a plain file, without waiting where it is a pipe.

    Args:
        flags: of `os.open`; with `os.O_CREAT`, a file that is missing is made.

    Returns:
        The handle, which the caller closes.

    Raises:
        OSError: it is no plain file, cannot be opened, or is larger than `MOST_BYTES`.
    """
    handle = os.open(path, flags | _WITHOUT_WAITING, 0o644)
    try:
        facts = os.fstat(handle)
        if stat.S_ISDIR(facts.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(f"{path.name} is not a plain file")
        if facts.st_size > MOST_BYTES:
            raise OSError(f"{path.name} has {facts.st_size} bytes, more than {MOST_BYTES}")
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_plain(path: Path) -> bytes:
    """Return the bytes of a file that `open_plain` opens; raises OSError as it does."""
    with open(open_plain(path), "rb") as file:
        return file.read(MOST_BYTES)


def read_text(path: Path | str) -> str:
    """Return the text of a file or a pipe as `text_of` does; raises OSError also where it cannot be opened."""
    with open(path, "rb") as file:
        return text_of(file, str(path))


def text_of(file: IO[bytes], name: str) -> str:
    """Return the text in an open file, its lines ended as Python ends them, and without a byte order mark.

    Raises:
        OSError: it cannot be read, is not UTF-8, or has more than `MOST_BYTES`, as an endless device has.
    """
    with name_in_errors(name):
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES} bytes", name)
    try:
        return io.StringIO(content.decode("utf-8-sig"), newline=None).getvalue()
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"it is not UTF-8 text: {error.reason} at byte {error.start}", name) from None


def open_own(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file as `open_plain` does; raises OSError for a link, and where others could have written the file."""
    handle = open_plain(path, flags | getattr(os, "O_NOFOLLOW", 0))
    try:
        check_own(path, os.fstat(handle))
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_own(path: Path) -> bytes:
    """Return the bytes of a file that `open_own` opens; raises OSError as it does."""
    with open(open_own(path), "rb") as file:
        return file.read(MOST_BYTES)
