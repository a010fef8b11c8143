"""The program of a fresh process: it times, counts and compiles by one gathernest, as its input asks.

A script, run by its path. It imports today's cases and the gathernest that PYTHONPATH names, of any commit, and uses
public functions alone. It reads one JSON object a line from standard input and answers each by one:

    {"turn": "import"}                                 {"ns": ..}: of a child that imports gathernest
    {"turn": "first-call"}                             {"ns": ..}: of a child that also calls it once
    {"ready": WHAT, "number": 0, "slot_ns": 3e5}       {"ns": .., "number": ..}: calls that fill the slot
    {"turn": 9, "place": 0.5}                          {"ns": ..}: of a call, the mean of 9 with the arrays of a place
    {"calls": WHAT}                                    {"calls": {..}}: Python functions called, by pass or file
    {"versions": true}                                 {"versions": {..}}: of packages and Python
    {"kernel": CASE}                                   stages, schedule, source and assembly, or `same_as`
    {"counts": FOLDER}                                 {"counts": ..}: the exact counts of the benchmarks there

WHAT is {"of": "import"}, {"of": "pipeline"}, or {"of": CASE, "cut": CASE, "sets": 4}: the kernel of a case, with the
arrays of another, smaller one, and sets of indices. The program's argument is the JSON object {"cases": FOLDER,
"threads": 1, "core": 0}. An answer {"missing": why} says that this gathernest lacks an operator, or fails at it.
"""

import collections
import hashlib
import importlib
import itertools
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

Call = Callable[[], object]
Answer = dict[str, Any]

UNTIMED_CALLS = 4  # the second like call is stored in the call cache, and found from the third on
LONG_CALL_NS = 5e6  # has no untimed call before each turn
# Of a kernel's arrays, in turn: the kind of the pages of small ones makes up to 10 % of a call, and differs by process.
PLACES, MAX_MOVED_BYTES = 4, 2 << 20
PIPELINE = ("gather", "1000x64xf32", "100xi64")
# The schedule is fixed: another revision may choose one of more passes.
SCHEDULE = (
    "specialize-inner{bytes=256},tile-loops{loops=indices sizes=256},parallelize-loops{loops=indices_o},"
    "vectorize-inner{lanes=16}"
)


class Worker:
    """The imports of the process, the call that it times, and the kernels that it has compiled."""

    def __init__(self, given: Answer):
        self.folder = given["cases"]
        self.clock = time.thread_time_ns if given["threads"] == 1 else time.perf_counter_ns
        self.calls: list[Call] = []
        self.call_ns = 0.0
        self.compiled: dict[str, str] = {}

    def answer(self, given: Answer) -> Answer:
        """Return the answer to one object."""
        asked = next(iter(given))
        try:
            return getattr(self, f"_{asked}")(given)
        except Exception as error:
            return {"missing": _reason(error)}

    # ---- times ----

    def _turn(self, given: Answer) -> Answer:
        number = given["turn"]
        if isinstance(number, str):
            if "gathernest" in sys.modules:
                raise RuntimeError("children must import gathernest themselves: time them before anything else")
            return _time_child(number)
        call = self.calls[int(given["place"] * len(self.calls))]
        if self.call_ns < LONG_CALL_NS:
            call()
        return {"ns": self._time(call, number) / number}

    def _ready(self, given: Answer) -> Answer:
        self.calls = []  # frees the arrays of the one before
        self.calls = self._calls_of(given["ready"])
        for call in self.calls:
            for _ in range(UNTIMED_CALLS if given["ready"]["of"] != "pipeline" else 1):
                call()
        number = given["number"] or 1
        while (taken := self._time(self.calls[0], number)) < given["slot_ns"] / 2 and not given["number"]:
            number = max(2 * number, int(number * given["slot_ns"] / max(taken, 1)))
        self.call_ns = taken / number
        return {"ns": self.call_ns, "number": number}

    def _time(self, call: Call, number: int) -> int:
        clock = self.clock
        start = clock()
        for _ in range(number):
            call()
        return clock() - start

    def _calls_of(self, given: Answer) -> list[Call]:
        """Return calls of the pipeline, or of a kernel that is scheduled for the case's own sizes.

        A kernel is called with the arrays of the case that is cut, in several places where that is a smaller one.
        """
        gn = importlib.import_module("gathernest")
        if given["of"] == "pipeline":
            with gn.knobs.scope(interpret=True):  # compiles nothing, so that `source` runs the passes every time
                kernel = gn.compile(*PIPELINE, schedule=SCHEDULE)
            return [lambda: kernel.source]
        cases, case = self._case(given["of"])
        _, cut = self._case(given["cut"])
        small = cut.make(given["sets"])
        if case.into == "new" or (cut == case and given["sets"] is None):
            return [cases.bind(case, small, gn)]
        data, indices, out = small.data, small.indices, small.out
        schedule = cases.compiled(case, _untouched(cases, case), gn).schedule
        table = out if case.is_gradient else data
        options = {"axis": case.axis, "batch_dims": case.batch_dims, "schedule": schedule}
        kernel = gn.compile(case.operator, table, indices[0], **options)
        return [_in_turn(kernel, _moved(data), map(_moved, indices), _moved(out)) for _ in range(PLACES)]

    def _case(self, given: Answer) -> tuple[Any, Any]:
        if self.folder not in sys.path:
            sys.path.append(self.folder)
        cases = importlib.import_module("cases")
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        return cases, cases.Case(**values)

    # ---- counts and code ----

    def _counts(self, given: Answer) -> Answer:
        sys.path.insert(0, given["counts"])
        return {"counts": importlib.import_module("benchmarks.counts").Counted().setup_cache()}

    def _versions(self, _: Answer) -> Answer:
        importlib.import_module("gathernest")
        packages = {name: version(name) for name in ("numba", "llvmlite", "xdsl")}
        return {"versions": {**packages, "python": ".".join(platform.python_version_tuple()[:2])}}

    def _kernel(self, given: Answer) -> Answer:
        """Return the stages (name and digest, which the sizes are part of) and the code of a case's kernel.

        Pages of its arrays are never touched. Older revisions do not name the kernel that calls with `out` run.
        """
        gn, (cases, case) = importlib.import_module("gathernest"), self._case(given["kernel"])
        kernel = cases.compiled(case, _untouched(cases, case), gn)
        kernel = getattr(kernel, "with_out", kernel) if case.into == "out" else kernel
        same_as = self.compiled.get(kernel.key)
        code = _code(kernel) if same_as is None else {"same_as": same_as}
        answer = {"stages": _stages(kernel), **code}
        self.compiled.setdefault(kernel.key, case.name)
        return answer

    def _calls(self, given: Answer) -> Answer:
        if given["calls"]["of"] == "import":
            return {"calls": count_calls(lambda: importlib.import_module("gathernest"))}
        call = self._calls_of(given["calls"])[0]
        for _ in range(UNTIMED_CALLS if given["calls"]["of"] != "pipeline" else 1):
            call()
        return {"calls": count_calls(call)}


def digest(text: str) -> str:
    """Return a short digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _stages(kernel: Any) -> list[tuple[str, str]]:
    """Return the passes with their options, and a digest of the module after each."""
    stages: dict[str, str] = kernel.stages
    steps = ["operator", *re.findall(r"[^,{}]+(?:\{[^}]*\})?", kernel.pipeline)]
    names = steps if len(steps) == len(stages) else list(stages)
    return [(name, digest(text)) for name, text in zip(names, stages.values(), strict=True)]


def _code(kernel: Any) -> Answer:
    """Return schedule, source and assembly, with the file that its lines are of; None where a revision has no lines."""
    try:
        program = importlib.import_module("gathernest.kernels.runtime.compile").build_program(kernel.plan)
        compiler = importlib.import_module("gathernest.lowering.numba.compiler")
        assembly, file = compiler.inspected_library(program, with_lines=True).get_asm_str(), compiler.INSPECTED_FILE
        source = program.source
    except (ImportError, AttributeError, TypeError):
        source, assembly, file = kernel.source, kernel.asm(), None
    return {"schedule": str(kernel.schedule), "source": source, "assembly": assembly, "file": file}


def count_calls(call: Call) -> dict[str, int]:
    """Count the Python functions that a call calls, by pass inside of passes, elsewhere by file of gathernest.

    A pass is a method `apply` of an object with the `name` of a pass, as xDSL calls it.
    """
    counts: dict[str, int] = collections.Counter()
    inside: list[tuple[Any, str]] = []
    root = f"{os.sep}gathernest{os.sep}"

    def see(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call":
            name = getattr(frame.f_locals.get("self"), "name", None) if code.co_name == "apply" else None
            if isinstance(name, str):
                inside.append((frame, f"pass {name}"))
            file = code.co_filename
            where = file.rpartition(root)[2] if root in file else ""
            where = "other packages" if "site-packages" in where or not where.endswith(".py") else where
            counts[inside[-1][1] if inside else where] += 1
        elif event == "return" and inside and frame is inside[-1][0]:
            inside.pop()

    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return dict(counts)


def _moved(array: Any) -> Any:
    """Return a copy; of a large array, whose pages are of all kinds, the array."""
    return array.copy() if array.nbytes <= MAX_MOVED_BYTES else array


def _in_turn(kernel: Callable[..., object], data: Any, indices: Any, out: Any) -> Call:
    """Return calls of a kernel with each row of indices in turn."""
    calls = [partial(kernel, data, picks, out) for picks in indices]
    following = itertools.cycle(calls).__next__
    return calls[0] if len(calls) == 1 else lambda: following()()


def _untouched(cases: Any, case: Any) -> Any:
    """Return arrays of a case's own sizes whose memory is never used."""
    import numpy as np

    source, result = (case.gathered, case.data) if case.is_gradient else (case.data, case.gathered)
    indices = np.empty(case.indices, case.index_dtype)
    return cases.Inputs(np.empty(source, case.dtype), (indices,), np.empty(result, case.dtype))


def _time_child(what: str) -> Answer:
    """Return the wall time of a child that imports gathernest, and calls it; or why it fails."""
    told, tells = os.pipe()
    child = os.fork()
    if child == 0:
        start = time.perf_counter_ns()
        try:
            gn = importlib.import_module("gathernest")
            if what == "first-call":
                import numpy as np

                gn.gather(np.arange(20, dtype="f4").reshape(5, 4), [0, 2])
            answer: Answer = {"ns": time.perf_counter_ns() - start}
        except BaseException as error:
            answer = {"missing": _reason(error)}
        os.write(tells, json.dumps(answer).encode())
        os._exit(0)
    os.close(tells)
    with open(told, "rb") as said:
        text = said.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"missing": "its process ended"}


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def main() -> None:
    """Answer lines until the input ends."""
    given = json.loads(sys.argv[1])
    if given["core"] is not None:
        os.sched_setaffinity(0, {given["core"]})
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the output of a library is no answer
    worker = Worker(given)
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=answers)


if __name__ == "__main__":
    main()
