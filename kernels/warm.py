"""Compiling kernels ahead of their first call, into the cache on disk: for images, CI and shared machines."""

import inspect
import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..ir.errors import GathernestError, did_you_mean, show
from ..ir.problem import Problem
from .host.cache_folder import cache_folder
from .host.knobs import knobs
from .host.runtime import RUNTIME
from .problems.named_problem import problem_of
from .runtime.compile_service import ChildEnded, compile_in_children
from .runtime.disk_cache import entry_folder
from .runtime.plan import Plan
from .runtime.prepare import planned, prepare_problem

SHAPES = {
    "rows": ("100000x64", "10000", 0),
    "short rows": ("100x16", "10", 0),
    "last axis": ("1000x1000", "500", 1),
    "middle axis": ("64x1000x32", "500", 1),
    "scalars": ("1000000", "100000", 0),
}
# One type of each width, since one kernel serves all types of a width.
ELEMENT_TYPES = ("f32", "f64", "i8", "i16")
INDEX_TYPES = ("i64", "i32")
BOUNDS = ("error", "zero")

Arguments = Mapping[str, Any]
OnKernel = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class WarmKernel:
    """The outcome for one kernel.

    Attributes:
        arguments: the arguments of `gathernest.compile`.
        key: the key of the kernel; empty where the arguments do not describe one.
        outcome: `compiled` now, `cached` before, or `failed`.
        seconds: the time that it took.
        reason: the reason of a failure.
    """

    arguments: Arguments
    key: str
    outcome: Literal["compiled", "cached", "failed"]
    seconds: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WarmResult:
    """The result of `warm`.

    Attributes:
        kernels: one entry for each kernel; arguments that describe the same kernel share an entry.
        seconds: the time of the whole.
        folder: the folder of the cache.
    """

    kernels: tuple[WarmKernel, ...]
    seconds: float
    folder: Path

    def count(self, outcome: str) -> int:
        """Return the number of kernels with that outcome."""
        return sum(kernel.outcome == outcome for kernel in self.kernels)


def usual_kernels() -> Iterator[dict[str, Any]]:
    """Yield the arguments of the kernels that most programs use.

    They gather rows, short rows, the last axis, a middle axis and scalars (`SHAPES`), for elements of 4, 8, 1 and 2
    bytes, int64 and int32 indices, and bounds `error` and `zero`. Sizes matter only as far as they decide a schedule.
    """
    for shapes, bounds, index_type, element in itertools.product(SHAPES.values(), BOUNDS, INDEX_TYPES, ELEMENT_TYPES):
        data, indices, axis = shapes
        arrays = {"data": f"{data}x{element}", "indices": f"{indices}x{index_type}"}
        yield {"operator": "gather", **arrays, "axis": axis, "bounds": bounds}


def warm(kernels: Iterable[Arguments] | None = None, *, jobs: int = 1, progress: OnKernel | None = None) -> WarmResult:
    """Compile kernels into the cache on disk, so that later processes find them there.

    Args:
        kernels: for each, the arguments of `compile` by name, arrays as text, such as
            `{"operator": "gather", "data": "1000x64xf32", "indices": "100xi64", "bounds": "zero"}`; the usual ones
            (`kernels.warm.usual_kernels`) when omitted.
        jobs: the number of processes that compile at once; this process alone compiles when it is 1.
        progress: called before each kernel with the numbers of done and of all kernels, and the next one's arguments.

    Returns:
        The kernels that were compiled, that were there already, and that failed, with the reason.

    Raises:
        GathernestError: a setting forbids to keep kernels, or no process can be started for several jobs.
    """
    if knobs.always_compile or knobs.interpret:
        name = "GATHERNEST_ALWAYS_COMPILE" if knobs.always_compile else "GATHERNEST_INTERPRET"
        raise GathernestError(f"{name} is set, so no kernel is kept; unset it to compile ahead of time")
    if not isinstance(jobs, int) or jobs < 1:
        raise GathernestError(f"jobs must be a whole number from 1, got {show(jobs)}")
    if not isinstance(kernels, Iterable | None):
        raise GathernestError(f"kernels must be a list of the arguments of compile, each by name, got {show(kernels)}")
    start = time.perf_counter()
    wanted, rejected = _distinct(usual_kernels() if kernels is None else kernels)
    compiled = _in_processes(wanted, min(jobs, len(wanted)), progress) if jobs > 1 else _here(wanted, progress)
    return WarmResult((*compiled, *rejected), time.perf_counter() - start, cache_folder())


def warm_one(arguments: Arguments) -> WarmKernel:
    """Compile one kernel into the cache, or find it there; also the kernel of calls with `out`, where it differs."""
    start, key = time.perf_counter(), ""
    try:
        problem = problem_of(**arguments)
        key = planned(problem).key
        were_cached = [_is_cached(each) for each in (problem.into(problem.result), problem)]
        outcome = "cached" if all(were_cached) else "compiled"
    except GathernestError as error:
        return WarmKernel(arguments, key, "failed", time.perf_counter() - start, str(error))
    return WarmKernel(arguments, key, outcome, time.perf_counter() - start)


def _is_cached(problem: Problem) -> bool:
    """Compile the kernel of a problem into the cache; return whether it was there.

    Raises:
        GathernestError: the cache cannot be written.
    """
    plan = planned(problem)
    folder = entry_folder(plan.key, plan.pipeline)
    if not (was_there := os.path.isdir(folder)):
        RUNTIME.loaded.pop(plan.key, None)  # a kernel from another folder would not be stored in this one
    loaded = prepare_problem(problem).loaded
    if loaded is not None and not os.path.isdir(folder):
        raise GathernestError(f"the cache folder {cache_folder()} cannot be written")
    return was_there and loaded is not None and loaded.from_cache


def kernels_of(body: Callable[[], object]) -> WarmResult:
    """Call `body`, in a process that has run no gather yet, and return the kernels that it loaded or compiled."""
    start = time.perf_counter()
    before = dict(RUNTIME.loaded)
    with knobs.scope(compile="now"):
        body()
    kernels = tuple(
        WarmKernel({"operator": key.partition(" ")[0]}, key, "cached" if loaded.from_cache else "compiled", 0.0)
        for key, loaded in RUNTIME.loaded.items()
        if before.get(key) is not loaded
    )
    return WarmResult(kernels, time.perf_counter() - start, cache_folder())


def _distinct(kernels: Iterable[Arguments]) -> tuple[list[Arguments], list[WarmKernel]]:
    """Return the arguments of different kernels, and the failures of the others."""
    wanted: dict[str, Arguments] = {}
    rejected: list[WarmKernel] = []
    for arguments in kernels:
        try:
            _check_names(arguments)
            plan = planned(problem_of(**arguments))
            if plan.action == "run":
                wanted.setdefault(plan.key, arguments)
        except GathernestError as error:
            rejected.append(WarmKernel(arguments, "", "failed", 0.0, str(error)))
    return list(wanted.values()), rejected


def _check_names(arguments: Arguments) -> None:
    """Check that a kernel has only arguments of `compile`, and the required ones; raises GathernestError."""
    allowed = inspect.signature(problem_of).parameters
    if not isinstance(arguments, Mapping):
        raise GathernestError(f"a kernel to compile is a dictionary of the arguments of compile, got {show(arguments)}")
    for name in arguments:
        if name not in allowed:
            raise GathernestError(
                f"there is no argument {show(name)}; use {', '.join(allowed)}{did_you_mean(str(name), allowed)}"
            )
    for name in ("operator", "data", "indices"):
        if name not in arguments:
            raise GathernestError(f"{name} is missing; name the gather by operator, data and indices")


def _here(wanted: list[Arguments], progress: OnKernel | None) -> list[WarmKernel]:
    done: list[WarmKernel] = []
    for arguments in wanted:
        if progress is not None:
            progress(len(done), len(wanted), describe(arguments))
        done.append(warm_one(arguments))
    return done


def _in_processes(wanted: list[Arguments], jobs: int, progress: OnKernel | None) -> list[WarmKernel]:
    """Compile in some processes of the compile service."""
    plans: dict[str, Plan] = {}
    keys: list[list[str]] = []
    for arguments in wanted:
        problem = problem_of(**arguments)
        both = [planned(each) for each in (problem, problem.into(problem.result))]
        keys.append([plan.key for plan in both])
        plans |= {plan.key: plan for plan in both}
    names = {key: describe(arguments) for arguments, both in zip(wanted, keys, strict=True) for key in both}
    were_there = {key for key, plan in plans.items() if os.path.isdir(entry_folder(key, plan.pipeline))}
    order = list(plans)

    def begin(number: int) -> None:
        if progress is not None:
            progress(number, len(order), names[order[number]])

    try:
        made = {
            order[number]: (seconds, reason)
            for number, seconds, reason in compile_in_children(list(plans.values()), min(jobs, len(order)), begin)
        }
    except (ChildEnded, MemoryError) as error:
        raise GathernestError(f"no process that compiles can be started: {error}; use jobs=1") from error
    done: list[WarmKernel] = []
    for arguments, both in zip(wanted, keys, strict=True):
        seconds = sum(made[key][0] for key in set(both))
        reason = next((made[key][1] for key in both if made[key][1]), "")
        outcome = "failed" if reason else "cached" if were_there.issuperset(both) else "compiled"
        done.append(WarmKernel(arguments, both[0], outcome, seconds, reason))
    return done


def describe(arguments: Arguments) -> str:
    """Return arguments as one line."""
    rest = {name: value for name, value in arguments.items() if name not in ("operator", "data", "indices")}
    arrays = f"{arguments.get('operator')} {arguments.get('data')} by {arguments.get('indices')}"
    return ", ".join([arrays, *(f"{name} {value}" for name, value in rest.items())])
