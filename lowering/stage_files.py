"""Stages as files: a dump has a file for each, and a file that a person edits replaces its stage. Plain Python.

`07-tile-loops.mlir` is the module after the seventh pass. Its first lines have the options by which `gathernest exec`
runs it, and a digest of the rest; a file that nobody edited is recognised by the digest, and replaces nothing.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..ir.errors import GathernestError, did_you_mean

_FIRST_LINES = re.compile(r"(?:// gathernest exec: .*\n)*// .* \(as made: ([0-9a-f]{16})\)\n")


@dataclass(frozen=True, slots=True)
class Stage:
    """The module after one pass.

    Attributes:
        name: the pass with its options; `operator` for the module as it came.
        text: the module in MLIR text.
        milliseconds: the time of the pass, without verification and printing.
        op_count: operations in the module.
    """

    name: str
    text: str
    milliseconds: float
    op_count: int

    @property
    def pass_name(self) -> str:
        """The pass without its options."""
        return self.name.partition("{")[0]


@dataclass(frozen=True, slots=True)
class StageFile:
    """A stage as a person edited it, and the file that has it."""

    path: str
    text: str

    def number(self, stages: Sequence[str]) -> int:
        """Return the number of the stage of a pipeline that it is; the first stage may have any name.

        Raises:
            GathernestError: the pipeline has no such stage.
        """
        name, files = Path(self.path).stem, [f"{number:02}-{stage}" for number, stage in enumerate(stages)]
        if name in files or name.startswith("00-"):
            return int(name.partition("-")[0])
        hint = did_you_mean(name, files) or "; a dump of the pipeline has the names"
        raise GathernestError(f"{self.path}: the pipeline has no stage {name!r}{hint}")


def write_stages(folder: Path, stages: Sequence[Stage], comment: str = "") -> None:
    """Write every stage to a file of its own, below a comment of whole lines.

    Raises:
        GathernestError: the folder is a file.
        OSError: it cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise GathernestError(f"{folder} is a file, and stages go to a folder; name another")
    folder.mkdir(parents=True, exist_ok=True)
    for number, stage in enumerate(stages):
        text = f"{comment}// {stage.name} (as made: {_digest(stage.text)})\n{stage.text}"
        path = folder / f"{number:02}-{stage.pass_name}.mlir"
        if path.exists() and not path.is_file():
            raise GathernestError(f"{path} is no plain file, and is not overwritten; name another folder")
        path.write_text(text, encoding="utf-8")


def edited_stages(folder: Path) -> tuple[StageFile, ...]:
    """Return the stages of a folder that were edited or written by hand, in order; none where there is no folder.

    Raises:
        GathernestError: a file is not UTF-8 text.
        OSError: it cannot be read.
    """
    found = [StageFile(str(path), _read(path)) for path in sorted(folder.glob("*.mlir"))]
    return tuple(file for file in found if not _is_as_made(file.text))


def last_changes(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return the names, times and sizes of the stages in a folder of dumps; an edit changes one of them.

    There are none where the path is no folder, as for a name that is too long. Raises OSError.
    """
    if not os.path.isdir(folder):
        return ()
    files = sorted(folder.glob("*/*.mlir"))
    return tuple((str(path), status.st_mtime_ns, status.st_size) for path in files for status in [path.stat()])


def digest_of(files: Sequence[StageFile]) -> str:
    """Return a digest of edited stages: 16 hexadecimal digits."""
    return _digest("\n".join(f"{Path(file.path).name}\n{len(file.text)}\n{file.text}" for file in files))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise GathernestError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None


def _is_as_made(text: str) -> bool:
    first = _FIRST_LINES.match(text)
    return first is not None and first[1] == _digest(text[first.end() :])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
