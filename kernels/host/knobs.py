"""Settings, each an environment variable and a typed attribute of `gathernest.knobs`.

A knob is looked up in `with knobs.scope(...)`, then its assignments, then the environment; then it has its default.
"""

import os
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ...ir.errors import GathernestError, did_you_mean, show
from ...ir.numbers import parse_whole
from .runtime import RUNTIME

# The largest number that a setting can have.
_MAX_COUNT = 2**31 - 1


class KnobError(GathernestError, ValueError):
    """A setting has a value that is not allowed."""


class UnknownKnobError(KnobError, AttributeError):
    """There is no setting of that name; an AttributeError too, so that `hasattr` answers."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting.

    Attributes:
        name: the attribute of `knobs`.
        read: converts a text to the value; raises one of `_UNREADABLE` for a text that is not allowed.
        allowed: the allowed values, for messages.
        default: the value without a setting.
        doc: one line for the table in the docs.
    """

    name: str
    read: Callable[[str], Any]
    allowed: str
    default: Any
    doc: str

    @property
    def variable(self) -> str:
        """The environment variable."""
        return "NO_COLOR" if self.name == "no_color" else f"GATHERNEST_{self.name.upper()}"


# `Knob.read` raises these errors; RuntimeError where there is no home folder for ~.
_UNREADABLE = (ValueError, KeyError, RuntimeError)
_FLAGS = {**dict.fromkeys(("1", "true", "yes", "on"), True), **dict.fromkeys(("0", "false", "no", "off", ""), False)}


def _flag(text: str) -> bool:
    return _FLAGS[text.strip().lower()]


def _whole(text: str) -> int:
    return parse_whole(text, 0, _MAX_COUNT)


def _path(text: str) -> Path:
    if not text or "\0" in text:
        raise ValueError
    return Path(text).expanduser()


def _path_or_off(text: str) -> Path | str:
    return "off" if text.strip().lower() == "off" else _path(text)


def _positive(text: str) -> int:
    return parse_whole(text, 1, _MAX_COUNT)


def _compile(text: str) -> str:
    return {mode: mode for mode in COMPILE_MODES}[text.strip().lower()]


COMPILE_MODES = ("background", "now", "never")
FLAGS = "0, 1, false, true, no, yes, off or on"
_PATH, _COUNT, _FLAG = (_path, "a path"), (_positive, "a whole number from 1 below 2**31"), (_flag, FLAGS)
_LIST = (
    Knob("cache_dir", *_PATH, None, "Folder of the compiled kernels; the user's cache folder if unset."),
    Knob(  # some 2000 kernels: an hour of varied use made 277 MB
        *("cache_limit_mb", *_COUNT, 512),
        "Megabytes of compiled kernels on disk; beyond them the least recently used are removed.",
    ),
    Knob(  # two results of 120 MB in turn, as a loop that binds one name has them, need one such block
        *("recycle_mb", _whole, "a whole number from 0 below 2**31", 256),
        "Megabytes of memory of dead results, of 32 MiB and more, that wait for the next one; 0 gives all back.",
    ),
    Knob(
        *("compile", _compile, "background, now or never", "background"),
        "When a call whose kernel is missing gets it: `background` and `never` let NumPy answer meanwhile.",
    ),
    Knob("num_threads", *_COUNT, None, "Most threads a large gather uses; one for each usable core if unset."),
    Knob("dump_dir", *_PATH, None, "Folder that gets every stage of every gather that is compiled."),
    Knob(
        *("override_dir", *_PATH, None),
        "Folder of a dump in which stages were edited: they [replace](writing_passes.md) the passes' own.",
    ),
    Knob("interpret", *_FLAG, False, "Run the reference interpreter instead of compiled code. Slow."),
    Knob("always_compile", *_FLAG, False, "Compile anew, and neither read nor write the cache on disk."),
    Knob(
        *("schedule", str, "a schedule", None),
        "Use this schedule for every gather; one whose nest lacks its loops is rejected.",
    ),
    Knob(
        *("tuning", _path_or_off, "a file, or off", None),
        "File of tuned schedules, read and written; `off` uses none. Unset: one for each machine in the cache folder.",
    ),
    Knob(
        *("machine", _path, "a built-in machine model or a file", None),
        "The [machine](machine.md) that schedules are chosen for: a model's name, or a JSON file. Unset: this one.",
    ),
    Knob("no_color", bool, "anything", False, "Print without colours."),
)
KNOBS = {knob.name: knob for knob in _LIST}


class Settings(NamedTuple):
    """The knobs that decide what runs, read once for a call, since another thread may change them meanwhile."""

    schedule: str | None
    interpret: bool
    always_compile: bool
    tuning: Path | str | None
    num_threads: int | None
    machine: Path | str | None
    override_dir: Path | None


_UNASSIGNED = object()
_NOTHING: Mapping[str, Any] = MappingProxyType({})
# The dictionary behind `os.environ`: a look-up takes 40 ns here, and 400 ns there.
ENVIRONMENT: Any = getattr(os.environ, "_data", os.environ)
# While one of these knobs is set, calls that were prepared without it are not used.
_DECIDE_WHAT_RUNS = ("schedule", "interpret", "always_compile")
# Calls are planned by these knobs: when one is assigned, prepared calls are forgotten and planned anew.
_DECIDE_PLANS = ("tuning", "machine", "override_dir")


class Knobs:
    """The settings of this process; see `KNOBS` for the list."""

    cache_dir: Path | None
    cache_limit_mb: int
    recycle_mb: int
    compile: str
    num_threads: int | None
    dump_dir: Path | None
    override_dir: Path | None
    interpret: bool
    always_compile: bool
    schedule: str | None
    tuning: Path | str | None
    machine: Path | None
    no_color: bool

    def __init__(self) -> None:
        object.__setattr__(self, "_assigned", {})
        object.__setattr__(self, "_scoped", ContextVar[Mapping[str, Any]]("gathernest_knobs", default=_NOTHING))
        object.__setattr__(self, "_options", ContextVar[Mapping[str, Any]]("gathernest_options", default=_NOTHING))
        object.__setattr__(self, "_deciding", ContextVar[bool | None]("gathernest_deciding_knobs", default=None))
        object.__setattr__(self, "_assigned_deciding", array("q", [0]))

    def __getattr__(self, name: str) -> Any:  # a knob is a property
        if name.startswith("__"):
            raise AttributeError(name)
        raise _unknown(name)

    def __setattr__(self, name: str, value: Any) -> None:
        value = _check(name, value)
        if self._assigned.get(name, _UNASSIGNED) != value:
            self._assigned[name] = value
            self._note_change(name)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *KNOBS]

    def __repr__(self) -> str:
        return f"<gathernest knobs: {', '.join(f'{name}={getattr(self, name)!r}' for name in KNOBS)}>"

    def __delattr__(self, name: str) -> None:
        _find(name)
        if self._assigned.pop(name, _UNASSIGNED) is not _UNASSIGNED:
            self._note_change(name)

    def settings(self) -> Settings:
        """Return the knobs that decide what runs, as they are now."""
        decide = self.schedule, self.interpret, self.always_compile, self.tuning, self.num_threads, self.machine
        return Settings(*decide, self.override_dir)

    def place(self, name: str) -> str:
        """Return the source of a knob's value, for errors: an option, `knobs.NAME` or a variable."""
        scoped = self._scoped.get()
        option, value = self._options.get().get(name, ("", _UNASSIGNED))
        if scoped.get(name) == value:
            return option
        is_own = name in self._assigned
        if name in scoped and not is_own:  # a call has its settings in a scope, wherever they are from
            is_own = scoped[name] != Context().run(getattr, self, name)
        return f"knobs.{name}" if is_own else _find(name).variable

    def told(self, name: str) -> str:
        """Return the source and the value of a knob: `--dump-dir folder` or `GATHERNEST_DUMP_DIR=folder`."""
        place = self.place(name)
        return f"{place}{' ' if place.startswith('-') else '='}{getattr(self, name)}"

    def asks_for_code(self) -> bool:
        """Return whether a knob asks for other code than usual, or for its stages."""
        is_other = self.interpret or self.always_compile or self.schedule is not None
        return is_other or self.dump_dir is not None or self.override_dir is not None

    def is_scoped(self) -> bool:
        """Return whether this is inside a scope of a knob that decides what runs."""
        return self._deciding.get() is not None

    def _note_change(self, name: str) -> None:
        values = ((self._assigned.get(name, KNOBS[name].default), KNOBS[name].default) for name in _DECIDE_WHAT_RUNS)
        self._assigned_deciding[0] = any(value != default for value, default in values)
        if name in _DECIDE_PLANS:
            RUNTIME.forget_calls()

    def guard(self) -> tuple[int, ContextVar[bool | None], dict[Any, Any], tuple[Any, ...]]:
        """Return the places from which machine code sees that no knob of `_DECIDE_WHAT_RUNS` is set.

        Returns:
            The address of an int64, not 0 while one is assigned; a context variable, not None inside a scope of one or
            of a knob that calls are planned by; the dictionary behind `os.environ`; and the keys of their variables.
        """
        variables = tuple(environment_key(KNOBS[name].variable) for name in _DECIDE_WHAT_RUNS)
        return self._assigned_deciding.buffer_info()[0], self._deciding, ENVIRONMENT, variables

    def thread_settings(
        self, variables: tuple[str, ...]
    ) -> tuple[ContextVar[Any], tuple[tuple[dict[Any, Any], Any], ...]]:
        """Return the places from which machine code sees that `num_threads` or environment variables have changed.

        Returns:
            A context variable, which has another value in each scope; and dictionaries, each with a key.
        """
        keys = [environment_key(variable) for variable in (KNOBS["num_threads"].variable, *variables)]
        return self._scoped, ((self._assigned, "num_threads"), *((ENVIRONMENT, key) for key in keys))

    @contextmanager
    def scope(self, **values: Any) -> Iterator[None]:
        """Set knobs for the code inside a `with`, in this thread or task.

        Raises:
            KnobError: a name or a value is not allowed.
        """
        checked = {name: _check(name, value) for name, value in values.items()}
        token = self._scoped.set({**self._scoped.get(), **checked})
        decides = any(name in checked for name in (*_DECIDE_WHAT_RUNS, *_DECIDE_PLANS))
        deciding_token = self._deciding.set(True if decides else self._deciding.get())
        try:
            yield
        finally:
            self._deciding.reset(deciding_token)
            self._scoped.reset(token)

    @contextmanager
    def scope_of_options(self, **given: tuple[str, Any]) -> Iterator[None]:
        """Set knobs from options, each as `name=(option, value)`: errors name the option; raises as `scope`."""
        checked = {
            name: (option, _check(name, value, f"{option} {value!r}")) for name, (option, value) in given.items()
        }
        token = self._options.set({**self._options.get(), **checked})
        try:
            with self.scope(**{name: value for name, (_, value) in checked.items()}):
                yield
        finally:
            self._options.reset(token)


def environment_key(variable: str) -> Any:
    """Return the key of an environment variable in `ENVIRONMENT`."""
    return os.environ.encodekey(variable) if isinstance(ENVIRONMENT, dict) else variable  # type: ignore[attr-defined]


def _property(knob: Knob) -> Any:
    """Return the property that reads a knob, in some 200 ns, since a call reads four."""
    name, variable, default = knob.name, knob.variable, knob.default
    key = environment_key(variable)

    def read(self: Knobs) -> Any:
        scoped = self._scoped.get()
        if name in scoped:
            return scoped[name]
        if name in self._assigned:
            return self._assigned[name]
        if not ENVIRONMENT.get(key):
            return default
        text = os.environ[variable]
        return _read(knob, text, f"{variable}={text!r}")

    return property(read, doc=knob.doc)


for _knob in _LIST:
    setattr(Knobs, _knob.name, _property(_knob))


def _unknown(name: str) -> UnknownKnobError:
    return UnknownKnobError(f"there is no knob {name!r}; the knobs are {', '.join(KNOBS)}{did_you_mean(name, KNOBS)}")


def _find(name: str) -> Knob:
    if name not in KNOBS:
        raise _unknown(name)
    return KNOBS[name]


def _check(name: str, value: Any, got: str | None = None) -> Any:
    """Return the value of a knob that is set to `value`; `got` is its name in errors."""
    knob, got = _find(name), f"knobs.{name} = {show(value)}" if got is None else got
    if value is None:
        return knob.default
    if isinstance(value, bool) and isinstance(knob.default, bool):
        return value
    if isinstance(value, bool) or (knob.read in (_path, _path_or_off) and not isinstance(value, str | os.PathLike)):
        raise KnobError(f"{got} is not allowed; set it to {knob.allowed}")
    return _read(knob, show(value) if isinstance(value, int) else str(value), got)


def _read(knob: Knob, text: str, got: str) -> Any:
    try:
        return knob.read(text)
    except _UNREADABLE:
        raise KnobError(f"{got} is not allowed; set it to {knob.allowed}") from None


knobs = Knobs()
