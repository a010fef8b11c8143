"""Measure which share of a fixed sample of mutants the tests kill: `make mutants`.

A mutant is the source with one small error that the library cosmic-ray has put in: another comparison, another number,
a loop that does not run. A suite that passes with it does not test that place.

1. The sample: one mutant for each of `--count` lines, drawn with a fixed seed from `ir`, `lowering` and
   `kernels/runtime`. Annotations and docstrings are left out, since a change there changes no behaviour.
2. The coverage: `make test` once, recording which test runs which line and how long it takes.
3. Each mutant: the tests that run its line, the quickest first, until one fails or `--seconds` of tests have passed.
   Then other tests run for the same time, first the tests of a file named after its module: coverage names one test of
   a line that runs once in a process, and none of a line that another process runs. A mutant that survives `make test`
   then meets what only `make test-all` runs: the other parameters of the tests that run its line, and every test
   marked thorough.

The result is a table in `build/mutants/result.json` and a line of summary. A mutant whose tests were cut off by
`--seconds` counts as survived, so both shares are lower bounds.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from coverage import CoverageData

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "mutants"
ROOMS = ("ir", "lowering", "kernels/runtime")
SEED = 38
# The tests of `make test`: pages and packages have their own.
TESTS = ("tests", "--ignore=tests/docs", "--ignore=tests/packaging")
# A test that takes longer than this many seconds hangs, which counts as killed.
HANG_SECONDS = 90
# A mutant of a pass has every kernel compiled anew, so its tests may take this many times as long as they took before.
LIMIT_FACTOR = 4
# Operators of cosmic-ray that change no behaviour here: decorators of values and caches, and names without arguments.
LEFT_OUT = re.compile(r"NoOp|RemoveDecorator|Variable")


@dataclass(frozen=True)
class Mutant:
    """One changed place of the source.

    Attributes:
        file: the path from the root.
        line: the line, counted from 1.
        operator, occurrence: what cosmic-ray changes.
    """

    file: str
    line: int
    operator: str
    occurrence: int

    def source(self) -> str:
        """Return the changed text of the file."""
        changed = mutate_code((ROOT / self.file).read_text(), get_operator(self.operator)(), self.occurrence)
        assert changed is not None, self
        return changed


def draw_mutants(count: int) -> list[Mutant]:
    """Return one mutant for each of `count` lines of the source, always those of the same commit."""
    at_line: dict[tuple[str, int], list[Mutant]] = {}
    for file in sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py")):
        text, name = file.read_text(), str(file.relative_to(ROOT))
        still, tree = _inert_lines(ast.parse(text)), list(ast_nodes(get_ast(text)))
        for operator in sorted(operator_names()):
            if LEFT_OUT.search(operator) or get_operator(operator).arguments():
                continue
            change = get_operator(operator)()
            places = [start for node in tree for start, _ in change.mutation_positions(node)]
            for occurrence, (line, _) in enumerate(places):
                if line not in still:
                    at_line.setdefault((name, line), []).append(Mutant(name, line, operator, occurrence))
    rng = random.Random(SEED)
    return [rng.choice(at_line[place]) for place in rng.sample(sorted(at_line), min(count, len(at_line)))]


def _inert_lines(tree: ast.Module) -> set[int]:
    """Return the lines of annotations, of signatures, of `TYPE_CHECKING` blocks and of strings that stand alone."""
    found: set[int] = set()

    def add(node: ast.AST) -> None:
        found.update(range(node.lineno, node.end_lineno + 1))  # type: ignore[attr-defined]

    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            notes = [argument.annotation for argument in ast.walk(node.args) if isinstance(argument, ast.arg)]
            for note in filter(None, [*notes, node.returns]):
                add(note)
        elif isinstance(node, ast.AnnAssign):
            add(node.annotation)
        elif isinstance(node, ast.Expr | ast.If):
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if is_text or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
                add(node)
    return found


def pytest_arguments(*more: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", *more]


def record_coverage() -> None:
    """Run `make test` once with the coverage of each test, and the time that each test takes."""
    report, rooms = BUILD / "durations.xml", [f"--cov={ROOT / room}" for room in ROOMS]
    cover = [*rooms, "--cov-context=test", "--cov-report="]
    environment = os.environ | {"COVERAGE_FILE": str(BUILD / "coverage")}
    command = pytest_arguments("-n", "2", "--dist", "loadfile", f"--junitxml={report}", *cover, *TESTS)
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    if status:
        raise SystemExit("the tests fail without a mutant; mend them first")


def tests_of_lines() -> dict[tuple[str, int], set[str]]:
    """Return the tests that run each line."""
    data, found = CoverageData(str(BUILD / "coverage")), {}
    data.read()
    for measured in data.measured_files():
        name = os.path.relpath(measured, ROOT)
        for line, contexts in data.contexts_by_lineno(measured).items():
            found[name, line] = {context.rpartition("|")[0] for context in contexts if "|" in context}
    return found


def durations() -> dict[str, float]:
    """Return the seconds that each test takes, by its name in the report."""
    import xml.etree.ElementTree as ElementTree

    cases = ElementTree.parse(BUILD / "durations.xml").iter("testcase")
    return {f"{case.get('classname')}::{case.get('name')}": float(case.get("time", 1)) for case in cases}


def report_name(test: str) -> str:
    """Return the name that the report has for the identifier of a test."""
    file, _, name = test.partition("::")
    return f"{file.removesuffix('.py').replace('/', '.')}::{name}"


class Worker:
    """A copy of the tree in which one mutant at a time is put, and tests are run."""

    def __init__(self, number: int):
        self.home = BUILD / f"worker{number}"
        self.tree = self.home / "gathernest"
        shutil.rmtree(self.home, ignore_errors=True)
        files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        for file in files:
            target = self.tree / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, target)

    def outcome(self, mutant: Mutant, tests: list[str], seconds: float) -> str:
        """Return whether tests `killed` a mutant, it `survived`, or they were `cut off` after `seconds`."""
        if not tests:
            return "survived"
        file = self.tree / mutant.file
        text = file.read_text()
        try:
            file.write_text(mutant.source())
            return self._run(tests, seconds)
        finally:
            file.write_text(text)

    def killer(self) -> str:
        """Return the first test of the last run that failed; empty where none did."""
        found = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", (self.home / "output.txt").read_text(), re.MULTILINE)
        return found[1] if found else ""

    def check(self, tests: list[str]) -> None:
        """Check that tests pass here without a mutant, so that a failure is the fault of one."""
        if self._run(tests, 600) != "survived":
            raise SystemExit(f"these tests fail without a mutant in {self.tree}: @{self.home / 'tests.txt'}")

    def _run(self, tests: list[str], seconds: float) -> str:
        cache, names = self.home / "cache", self.home / "tests.txt"
        shutil.rmtree(cache, ignore_errors=True)
        names.write_text("\n".join(tests))
        hang = ["-o", f"faulthandler_timeout={HANG_SECONDS}", "-o", "faulthandler_exit_on_timeout=true"]
        process = subprocess.Popen(
            pytest_arguments("-x", "--all", *hang, f"@{names}"),
            cwd=self.tree,
            env=os.environ | {"PYTHONPATH": str(self.home), "GATHERNEST_CACHE_DIR": str(cache)},
            stdout=(self.home / "output.txt").open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return "killed" if process.wait(seconds) else "survived"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "cut off"


@dataclass(frozen=True)
class Suite:
    """Which tests there are, which line each runs, and how long each takes.

    Attributes:
        seconds: of each test of `make test`, by its identifier.
        of_line: the tests of `make test` that run a line.
        others: the tests that only `make test-all` has, by file.
    """

    seconds: dict[str, float]
    of_line: dict[tuple[str, int], set[str]]
    others: dict[str, list[str]]

    def quick(self, mutant: Mutant, budget: float) -> list[str]:
        """Return tests of `make test`: `budget` seconds that run the line of a mutant, and `budget` of others."""
        found, stem = self._running(mutant), Path(mutant.file).stem
        order = sorted(self.seconds, key=lambda test: (f"/test_{stem}.py::" not in test, self.seconds[test], test))
        running = _within(sorted(found, key=lambda test: (self.seconds[test], test)), self.seconds, budget)
        return running + _within([test for test in order if test not in running], self.seconds, budget)

    def rest(self, mutant: Mutant, budget: float) -> list[str]:
        """Return the tests of `make test-all` alone that are likely to run the line: those beside the quick ones."""
        near = self._running(mutant)
        functions = {test.partition("[")[0] for test in near}
        files = {test.partition("::")[0] for test in near}
        seconds = {function: self.seconds[test] for test in near for function in [test.partition("[")[0]]}
        found = [test for file in sorted(files) for test in self.others.get(file, ())]
        cost = {test: seconds.get(test.partition("[")[0], 1.0) for test in found}
        found.sort(key=lambda test: (test.partition("[")[0] not in functions, cost[test], test))
        return _within(found, cost, budget)

    def _running(self, mutant: Mutant) -> set[str]:
        """Return the tests that run the line; where none does, as it runs on import, those that run the file."""
        found = self.of_line.get((mutant.file, mutant.line), set())
        if not found:
            found = set().union(*(tests for (file, _), tests in self.of_line.items() if file == mutant.file))
        return found & self.seconds.keys()


def _within(tests: list[str], seconds: dict[str, float], budget: float) -> list[str]:
    taken: list[str] = []
    for test in tests:
        budget -= seconds[test]
        if budget < 0 and taken:
            break
        taken.append(test)
    return taken


def collected(*more: str) -> list[str]:
    """Return the identifiers of the tests that pytest collects."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *more, *TESTS]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    return [line for line in lines if line.startswith("tests/") and "::" in line]


def read_suite() -> Suite:
    """Return the tests with their coverage, as `record_coverage` left it."""
    took, quick = durations(), collected()
    seconds = {test: took.get(report_name(test), 1.0) for test in quick}
    others: dict[str, list[str]] = {}
    for test in collected("--all"):
        if test not in seconds:
            others.setdefault(test.partition("::")[0], []).append(test)
    return Suite(seconds, tests_of_lines(), others)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=300, help="how many mutants (default 300)")
    parser.add_argument("--seconds", type=float, default=20, help="seconds of tests a mutant meets (default 20)")
    parser.add_argument("--recorded", action="store_true", help="use the coverage that the last run recorded")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time (default: the cores)")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    if not options.recorded:
        record_coverage()
    suite, mutants = read_suite(), draw_mutants(options.count)
    free = [Worker(number) for number in range(options.jobs)]
    for worker in free[:1]:
        worker.check(random.Random(SEED).sample(sorted(suite.seconds), 100))
    results, begun = [], time.monotonic()

    def judge(mutant: Mutant) -> None:
        worker = free.pop()
        try:
            quick = suite.quick(mutant, options.seconds)
            outcome = worker.outcome(mutant, quick, LIMIT_FACTOR * options.seconds + HANG_SECONDS)
            rest, more, killer = "", [], worker.killer() if quick else ""
            if outcome != "killed":
                more = suite.rest(mutant, options.seconds)
                rest = worker.outcome(mutant, more, LIMIT_FACTOR * options.seconds + HANG_SECONDS)
                killer = worker.killer() if rest == "killed" else ""
        finally:
            free.append(worker)
        found = {"test": outcome, "tests": len(quick), "rest": rest, "others": len(more), "killer": killer}
        results.append(asdict(mutant) | found)
        (BUILD / "result.json").write_text(json.dumps(results, indent=1))
        minutes = (time.monotonic() - begun) / 60
        print(f"{len(results)}/{len(mutants)} {minutes:.1f} min {results[-1]}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(judge, mutants))
    by_test = sum(result["test"] == "killed" for result in results)
    by_all = by_test + sum(result["rest"] == "killed" for result in results)
    print(f"{len(results)} mutants: make test kills {by_test} ({by_test / len(results):.1%}), ", end="")
    print(f"make test-all {by_all} ({by_all / len(results):.1%})")


if __name__ == "__main__":
    main()
