"""Settings, each an environment variable and a typed attribute of `gathernest.knobs`.

A knob is looked up in `with knobs.scope(...)`, then its assignments, then the environment; then it has its default.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..ir.errors import GathernestError, did_you_mean


class KnobError(GathernestError, ValueError):
    """A setting has a value that it cannot have."""


class UnknownKnobError(KnobError, AttributeError):
    """There is no setting of that name; an AttributeError too, so that `hasattr` answers."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting.

    Attributes:
        variable: the environment variable.
        read: makes the value of a text; raises ValueError for a text it does not know.
        allowed: what the message says is allowed.
        default: the value without a setting.
        doc: one line for the table in the docs.
    """

    variable: str
    read: Callable[[str], Any]
    allowed: str
    default: Any
    doc: str


def _flag(text: str) -> bool:
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
        "": False,
    }
    try:
        return words[text.strip().lower()]
    except KeyError:
        raise ValueError from None


def _path(text: str) -> Path:
    if not text:
        raise ValueError
    return Path(text).expanduser()


def _path_or_off(text: str) -> Path | str:
    return "off" if text.strip().lower() == "off" else _path(text)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


KNOBS: dict[str, Knob] = {
    "cache_dir": Knob(
        "GATHERNEST_CACHE_DIR",
        _path,
        "a path",
        None,
        "Folder of the compiled kernels; the user's cache folder if unset.",
    ),
    "num_threads": Knob(
        "GATHERNEST_NUM_THREADS", _positive, "a whole number from 1", None, "Threads a large gather uses; all if unset."
    ),
    "dump_dir": Knob(
        "GATHERNEST_DUMP_DIR", _path, "a path", None, "Folder that gets every stage of every gather that is compiled."
    ),
    "interpret": Knob(
        "GATHERNEST_INTERPRET", _flag, "0 or 1", False, "Run the reference interpreter instead of compiled code. Slow."
    ),
    "always_compile": Knob(
        "GATHERNEST_ALWAYS_COMPILE",
        _flag,
        "0 or 1",
        False,
        "Compile anew, and neither read nor write the cache on disk.",
    ),
    "schedule": Knob(
        "GATHERNEST_SCHEDULE",
        str,
        "a schedule",
        None,
        "Use this schedule for every gather; one whose nest lacks its loops is refused.",
    ),
    "tuning": Knob(
        "GATHERNEST_TUNING",
        _path_or_off,
        "a file, or off",
        None,
        "File of tuned schedules, read and written; `off` uses none. Unset: one for each machine in the cache folder.",
    ),
    "no_color": Knob("NO_COLOR", lambda text: bool(text), "anything", False, "Print without colours."),
}


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Knobs:
    """The settings of this process; see `KNOBS` for the list."""

    cache_dir: Path | None
    num_threads: int | None
    dump_dir: Path | None
    interpret: bool
    always_compile: bool
    schedule: str | None
    tuning: Path | str | None
    no_color: bool

    def __init__(self) -> None:
        object.__setattr__(self, "_assigned", {})
        object.__setattr__(self, "_scoped", ContextVar[Mapping[str, Any]]("gathernest_knobs", default=_NOTHING))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        knob = _find(name)
        for layer in (self._scoped.get(), self._assigned):
            if name in layer:
                return layer[name]
        text = os.environ.get(knob.variable)
        return knob.default if not text else _read(knob, text, f"{knob.variable}={text!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        self._assigned[name] = _checked(name, value)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *KNOBS]

    def __repr__(self) -> str:
        return f"<gathernest knobs: {', '.join(f'{name}={getattr(self, name)!r}' for name in KNOBS)}>"

    def __delattr__(self, name: str) -> None:
        _find(name)
        self._assigned.pop(name, None)

    @contextmanager
    def scope(self, **values: Any) -> Iterator[None]:
        """Set knobs for the code inside a `with`, in this thread or task.

        Raises:
            KnobError: a name or a value is not allowed.
        """
        checked = {name: _checked(name, value) for name, value in values.items()}
        token = self._scoped.set({**self._scoped.get(), **checked})
        try:
            yield
        finally:
            self._scoped.reset(token)


def _find(name: str) -> Knob:
    if name not in KNOBS:
        raise UnknownKnobError(
            f"there is no knob {name!r}; the knobs are {', '.join(KNOBS)}{did_you_mean(name, KNOBS)}"
        )
    return KNOBS[name]


def _checked(name: str, value: Any) -> Any:
    knob = _find(name)
    if value is None:
        return knob.default
    if isinstance(value, bool) and isinstance(knob.default, bool):
        return value
    if isinstance(value, bool) or (knob.read in (_path, _path_or_off) and not isinstance(value, str | os.PathLike)):
        raise KnobError(f"knobs.{name} = {value!r} is not allowed; set it to {knob.allowed}")
    return _read(knob, str(value), f"knobs.{name} = {value!r}")


def _read(knob: Knob, text: str, got: str) -> Any:
    try:
        return knob.read(text)
    except ValueError:
        raise KnobError(f"{got} is not allowed; set it to {knob.allowed}") from None


knobs = Knobs()
