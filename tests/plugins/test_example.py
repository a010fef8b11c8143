"""`examples/gather_sort_pass`, installed as an outsider does: a process with it, and one without it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "gather_sort_pass"
SCHEDULE = (
    "tile-loops{loops=indices sizes=64},interchange-loops{order=indices_o,indices_i,inner},"
    "parallelize-loops{loops=indices_o},hoist-indices{before=indices_i},sort-indices{pages=7}"
)
SET_UP = f"""
import json, sys, warnings
import numpy as np
import gathernest as gn
from gathernest.kernels.tune import save
from gathernest.kernels.tuned_schedules.records import Record
from gathernest.lowering.registry import passes_of_others

SCHEDULE = {SCHEDULE!r}
rng = np.random.default_rng(1)
data, indices = rng.random((300, 24)).astype(np.float32), rng.integers(0, 300, 501)
same = lambda kernel: bool((kernel(data, indices) == data[indices]).all())
said = {{}}
"""
WITH = """
kernel = gn.compile("gather", data, indices, schedule=SCHEDULE)
assert gn.Schedule.parse(str(kernel.schedule)) == kernel.schedule
own = gn.compile("gather", data, indices, pipeline=kernel.pipeline)
said["bytes"] = [same(kernel), same(own)]
said["stages"] = ["sort-indices" in kernel.stages, "sort-indices" in own.stages]
said["digest"] = passes_of_others(kernel.pipeline)
steps = gn.schedule("gather", data, indices)
steps.apply(SCHEDULE)
said["language"] = str(steps.schedule)
nest = gn.run_stage(kernel.stages["operator"], data, indices, pipeline=f"nest,erase-sizes,drop-unit-loops,{SCHEDULE}")
said["stage"] = bool((nest == data[indices]).all())
result = gn.tune("gather", data, indices, candidates=[SCHEDULE], rounds=15)
said["tuned"] = [[trial.outcome, trial.reason] for trial in result.trials if "sort-indices" in str(trial.schedule)]
from gathernest.kernels.host.machine import machine_model
from gathernest.lowering.schedule.candidates import GENERATORS
from gathernest.lowering.schedule.candidates import Space
staged = gn.Schedule.parse(SCHEDULE.partition(",sort")[0])
offered = GENERATORS[-1](Space(kernel.plan.layout.nest, staged, machine_model()), staged)
said["offered"] = [str(schedule).rpartition(",")[2] for schedule in offered]
record = Record(SCHEDULE, "", 2.0, 1.0, 2.0, 21, 21, "2026-01-01T00:00:00Z", "any", {}, {})
save({kernel.plan.problem_class: record})
said["recorded"] = str(gn.compile("gather", data, indices).schedule)
from gathernest.playground.sections import section_of
section = section_of(kernel, timing=False)
said["levels"] = [[level.name, level.is_changed] for level in section.trace.levels]
said["mapped"] = section.trace.mapped
said["steps"] = [section.steps.is_right, section.steps.stage]
said["drawings"] = [figure.title for figure in section.figures if figure.svg]
"""
WITHOUT = """
for key, given in {"schedule": SCHEDULE, "pipeline": "sort-indices,default"}.items():
    try:
        gn.compile("gather", data, indices, **{key: given})
    except gn.ScheduleError as error:
        said[key] = str(error)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    kernel = gn.compile("gather", data, indices)
said |= {"bytes": same(kernel), "recorded": str(kernel.schedule), "warned": [str(each.message) for each in caught]}
"""
BISECTED = """
small = "gather", "40x6xf32", "51xi64"
found = gn.bisect(*small, schedule=SCHEDULE.replace("64", "8"))
said["right"] = found is None
import gather_sort_pass.sort_indices as own
own._add_one = lambda builder, buffer, place, one: own._load(builder, buffer, place)  # nothing is counted
found = gn.bisect(*small, schedule=SCHEDULE.replace("64", "8"))
said |= {"name": found.name, "size": found.problem.result.size, "text": found.reproducer()}
"""
CACHED = """
import importlib.metadata
importlib.metadata.entry_points = lambda **kind: sys.exit("entry points were looked for")
with gn.knobs.scope(tuning="off"):
    gn.gather(data, indices)
said["modules"] = [name for name in ("xdsl", "numba", "gather_sort_pass") if name in sys.modules]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a function that runs Python words with or without the package, on one cache folder."""
    pytest.importorskip("setuptools", minversion="77", reason="the package is built by the one that is installed")
    place = tmp_path_factory.mktemp("outside")
    shutil.copytree(EXAMPLE, place / "source")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", place / "site", place / "source"]
    subprocess.run(command, check=True)

    def run(*words: str, installed: bool) -> str:
        outside = {"PYTHONPATH": str(place / "site")} if installed else {}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GATHERNEST_")}
        environment |= {"GATHERNEST_CACHE_DIR": str(place / "cache"), **outside}
        command = [sys.executable, *words]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=place)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    return run


@pytest.mark.thorough
def test_it_works_in_all_places_and_nowhere_without_it(run):
    def said(script: str, *, installed: bool) -> dict:
        return json.loads(run("-c", f"{SET_UP}{script}\nprint(json.dumps(said))", installed=installed))

    found = said(WITH, installed=True)
    assert found["bytes"] == found["stages"] == [True, True]
    assert found["digest"][0].startswith("sort-indices of gather_sort_pass.sort_indices.SortIndices, gather_sort_pass")
    assert "version 0.1.0, source " in found["digest"][0]
    ((outcome, reason),) = found["tuned"]
    assert outcome in ("timed", "winner", "abandoned") and "bytes" not in reason
    assert found["offered"] == ["sort-indices{pages=64}", "sort-indices{pages=512}"]
    assert found["recorded"] == found["language"] == SCHEDULE
    assert found["stage"] is True
    assert ["sort-indices{pages=7}", True] in found["levels"]
    right, counted = found["mapped"]
    assert 0 < 0.9 * counted < right <= counted  # an address of sorted places may have another base register
    assert found["steps"] == [True, "hoist-invariants"]
    assert {"The scheduled nest", "The memory accesses"} <= set(found["drawings"])

    without = said(WITHOUT, installed=False)
    assert "'sort-indices' is not a pass of a schedule; use " in without["schedule"]
    assert without["pipeline"].startswith("there is no pass 'sort-indices'")
    assert without["bytes"] and "sort-indices" not in without["recorded"]
    (warned,) = without["warned"]
    assert "is ignored: 'sort-indices' is not a pass of a schedule" in warned and "Tune it again" in warned

    assert said(CACHED, installed=True) == {"modules": []}


@pytest.mark.thorough
def test_bisect_names_it_where_it_is_wrong(run, tmp_path):
    found = json.loads(run("-c", f"{SET_UP}{BISECTED}\nprint(json.dumps(said))", installed=True))
    assert found["right"]
    assert found["name"].startswith("sort-indices{pages=") and found["size"] <= 24
    (tmp_path / "wrong.mlir").write_text(found["text"])
    # the example is one of the arrays, not of the passes alone: with the right pass it is right
    assert "interpreter gives the bytes" in run(
        "-m", "gathernest", "exec", str(tmp_path / "wrong.mlir"), installed=True
    )


def test_the_command_line_lists_it(run):
    words = "-m", "gathernest.tools.opt", "--list-passes"
    line = "  sort-indices           Run the iterations of a tile in the order of the pages that its indices point to."
    assert line in run(*words, installed=True).splitlines()


@pytest.mark.thorough
def test_the_program_of_its_page_runs(run):
    (program,) = re.findall(r"```python\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    assert "gather.loop ordered " in run("-c", program, installed=True)


@pytest.mark.thorough
def test_its_own_tests_pass(run):
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "source/tests", installed=True)
