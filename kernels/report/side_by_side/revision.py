"""The same gather as another revision of gathernest compiles it, run from its sources in a process of its own."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from ....ir.problem import Problem
from ....lowering.provenance.assembly import Instruction, loops_of, read_assembly
from ....lowering.provenance.trace import Level, Line, Trace
from ....lowering.schedule.schedule import Schedule
from ...host.checkout import RevisionError, extract
from ..section import Section, pass_lines

# Compiling a gather twice takes seconds; a machine under load takes a minute.
LIMIT_S = 300
_PROGRAM = """
import json, sys
import gathernest as gn
given = json.load(sys.stdin)
kernel = gn.compile(*given["arguments"], **given["options"])
facts = {"schedule": str(kernel.schedule)}
try:
    from gathernest.kernels.report.trace_plan import trace
except ImportError:
    asm = kernel.asm
    facts |= {"stages": dict(kernel.stages), "source": kernel.source, "asm": asm() if callable(asm) else asm}
else:
    plan = kernel.plan
    facts |= {"reasons": plan.reasons, "pipeline": plan.pipeline, "trace": trace(plan).to_json()}
json.dump(facts, sys.stdout)
"""


def section_at(revision: str, section: Section, schedule: Schedule | None, *, name: str) -> Section:
    """Return a section of the same gather as a revision compiles it; it is not timed, and has no drawings.

    Args:
        revision: a commit, branch or tag of the checkout that this package runs from.
        section: the gather as compiled here.
        schedule: its schedule; chosen by the revision when None.
        name: of the section.

    Raises:
        RevisionError: there is no checkout or no such revision, or the revision fails.
    """
    with tempfile.TemporaryDirectory(prefix="gathernest-revision-") as folder:
        extract(revision, Path(folder, "gathernest"))
        said = _ask(Path(folder), revision, _call(section.problem, schedule))
    remarks = [f"As revision {revision} compiles it, on this machine."]
    if "trace" in said:
        try:
            trace = Trace.from_json(said["trace"])
        except (KeyError, TypeError) as error:
            raise RevisionError(
                f"revision {revision} describes its levels in another form ({error}); name a later one"
            ) from None
    else:
        trace = _trace_of_texts(said)
        remarks.append(f"Revision {revision} has no provenance: its lines do not name what they came from.")
    return dataclasses.replace(
        section,
        name=name,
        trace=trace,
        figures=(),
        steps=None,
        explanation=None,
        not_timed="Another revision is not timed here.",
        remarks=tuple(remarks),
        schedule=pass_lines(said["schedule"]),
        reasons=tuple(said.get("reasons", ())),
        pipeline=said.get("pipeline", ""),
    )


def _trace_of_texts(said: dict[str, Any]) -> Trace:
    """Return the levels of a revision without provenance: its stages, its source and its assembly."""
    levels: list[Level] = []
    for name, text in said["stages"].items():
        lines = tuple(map(Line, text.splitlines()))
        is_changed = not levels or levels[-1].lines != lines
        levels.append(Level(name, "stage", lines, len(levels) - 1 if levels else None, is_changed))
    levels.append(Level("source", "source", tuple(map(Line, said["source"].splitlines())), len(levels) - 1))
    instructions = _functions_with_loops(read_assembly(said["asm"], ""))
    lines = tuple(Line(at.text, (), at.kind) for at in instructions)
    levels.append(Level("assembly", "assembly", lines, len(levels) - 1, loops=loops_of(instructions)))
    return Trace(tuple(levels), same_code=True)


def _functions_with_loops(instructions: list[Instruction]) -> list[Instruction]:
    """Return the functions of an assembly that have loops, all where none has: old revisions have long wrappers."""
    starts = [at for at, each in enumerate(instructions) if each.text.endswith(":") and not each.text.startswith(".L")]
    spans = [range(start, end) for start, end in pairwise([*starts, len(instructions)])]
    looped = {loop.first for loop in loops_of(instructions)}
    found = [instructions[at] for span in spans if not looped.isdisjoint(span) for at in span]
    return found or instructions


def _ask(folder: Path, revision: str, call: dict[str, Any]) -> dict[str, Any]:
    """Return what the program says, run with the revision's package."""
    environment = os.environ | {"PYTHONPATH": str(folder), "GATHERNEST_CACHE_DIR": str(folder / "cache")}
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            input=json.dumps(call),
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
            env=environment,
            cwd=folder,
        )
    except subprocess.TimeoutExpired:
        raise RevisionError(f"revision {revision} took more than {LIMIT_S} s; give smaller sizes") from None
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
        raise RevisionError(
            f"revision {revision} cannot report this gather: {reason}; name a later one, or a gather that it knows"
        )
    return json.loads(ended.stdout)


def _call(problem: Problem, schedule: Schedule | None) -> dict[str, Any]:
    """Return the arguments of `gathernest.compile` for a problem, as JSON can hold them."""
    options: dict[str, Any] = {**problem.operator.attributes(), "bounds": str(problem.bounds)}
    if problem.gradient is not None:
        options |= {"data_shape": problem.table.shape, "scale": problem.gradient.scale}
    if schedule is not None:
        options["schedule"] = str(schedule)
    return {"arguments": [problem.name, str(problem.source), str(problem.indices)], "options": options}
