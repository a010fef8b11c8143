"""Record a lowering with the provenance of every line: stages, source, LLVM IR and assembly."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FileLineColLoc, FusedLoc, ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from ...ir.modules.context import make_context
from ...ir.modules.read_module import read_module
from ..numba.compiler import INSPECTED_FILE, inspected_library
from ..numba.emitter import emit
from ..numba.program import Program
from ..pipeline import NO_EDITS, Stage, record_stages
from .assembly import inferred_lines, loop_around, loops_of, read_assembly, read_llvm, with_loads
from .trace import Level, Line, MachineLoop, Trace


def trace_lowering(
    module: ModuleOp,
    passes: Sequence[ModulePass],
    context: Context | None = None,
    *,
    header: str = "",
    edits: Mapping[int, ModuleOp] = NO_EDITS,
) -> Trace:
    """Lower a module of any level to machine code, and return every level.

    Args:
        module: the input; it is changed.
        passes: the passes to run, which must reach loops.
        context: of the module; one with every dialect of ours when omitted.
        header: comment at the top of the source.
        edits: as of `record_stages`.

    Raises:
        GathernestError: as `record_stages`; ScheduleError where the passes do not reach loops.
        CompileError: as `compile_program`.
    """
    context = context or make_context()
    levels = trace_stages(module, passes, context, edits=edits)
    last = len(levels) - 1
    program = emit(read_module(levels[-1].text, levels[-1].name, context, verify=False), header)
    levels.append(_source_level(program, last))
    compiled = inspected_library(program, with_lines=True)
    llvm = [Line(text, _before(line)) for text, line in read_llvm(compiled.get_llvm_str(), INSPECTED_FILE)]
    levels.append(Level("LLVM IR", "llvm", tuple(llvm), last + 1))
    levels.append(assembly_level(program, compiled, last + 1))
    plain = read_assembly(inspected_library(program).get_asm_str(), INSPECTED_FILE)
    return Trace(tuple(levels), [line.text for line in levels[-1].lines] == [at.text for at in plain])


def assembly_level(program: Program, library: Any, origin: int) -> Level:
    """Return the assembly of a program, with its loops and their names in the nest.

    Args:
        program: the compiled program.
        library: the result of `inspected_library` with lines.
        origin: the number of the level of the source.
    """
    instructions = read_assembly(library.get_asm_str(), INSPECTED_FILE)
    source, loops = program.source.splitlines(), list[MachineLoop]()
    found = with_loads(instructions, inferred_lines(instructions), source)
    lines = [
        Line(at.text, tuple(line - 1 for line in came), at.kind) for at, came in zip(instructions, found, strict=True)
    ]
    for loop in loops_of(instructions):
        came = [line for at in loop.lines if (line := instructions[at].line) is not None]
        name, depth = loop_around(source, came) if loop.is_hot else ("", 0)
        loops.append(replace(loop, name=name, nest_depth=depth))
    return Level("assembly", "assembly", tuple(lines), origin, loops=tuple(loops))


def trace_stages(
    module: ModuleOp,
    passes: Sequence[ModulePass],
    context: Context,
    *,
    edits: Mapping[int, ModuleOp] = NO_EDITS,
    first: str = "operator",
) -> list[Level]:
    """Run passes on a module in place, and return its stages; raises as `record_stages`."""
    recorder = _Recorder(context)
    stages = list(record_stages(module, passes, context, printed=recorder.printed, edits=edits, first=first))
    return [
        _stage_level(number, stage, stages[number - 1] if number else None, origins)
        for number, (stage, origins) in enumerate(zip(stages, recorder.origins, strict=True))
    ]


def _stage_level(number: int, stage: Stage, before: Stage | None, origins: dict[int, set[int]]) -> Level:
    texts = stage.text.splitlines()
    lines = tuple(Line(text, tuple(sorted(origins.get(at, ())))) for at, text in enumerate(texts))
    return Level(
        stage.name,
        "stage",
        lines,
        None if before is None else number - 1,
        before is None or before.text != stage.text,
        stage.milliseconds,
        stage.op_count,
    )


def _source_level(program: Program, origin: int) -> Level:
    texts = program.source.splitlines()
    lines = [Line(text, _before(program.origins.get(number))) for number, text in enumerate(texts, 1)]
    return Level("source", "source", tuple(lines), origin)


def _before(line: int | None) -> tuple[int, ...]:
    return () if line is None else (line - 1,)


class _Recorder:
    """Reads from the locations of a stage's operations which lines of the stage before they came from.

    Before each pass every operation gets its line as its location. A pass carries locations to new operations; an
    operation without a location has the origins of the operations that use its results, or else of the operation
    around it.
    """

    def __init__(self, context: Context):
        self.context = context
        self.origins: list[dict[int, set[int]]] = []

    def printed(self, module: ModuleOp) -> str:
        """Return a stage's text, read its origins, and make its lines the locations of its operations."""
        text, number = str(module), len(self.origins)
        parsed = read_module(text, f"stage {number}", self.context, verify=False)
        places = [(op, as_parsed.location) for op, as_parsed in zip(module.walk(), parsed.walk(), strict=True)]
        known = {op: _lines_of(op.location, f"stage {number - 1}") for op, _ in places}
        _infer(known)
        found: dict[int, set[int]] = {}
        for op, location in places:
            if isinstance(location, FileLineColLoc):  # a terminator that is not printed has none
                found.setdefault(location.line.data - 1, set()).update(known[op])
            op.location = location
        self.origins.append(found)
        return text


def _lines_of(location: Attribute, file: str) -> frozenset[int]:
    """Return the lines of a file that a location names."""
    if isinstance(location, FileLineColLoc) and location.filename.data == file:
        return frozenset({location.line.data - 1})
    if isinstance(location, FusedLoc) and isinstance(location.locations, ArrayAttr):
        return _union(_lines_of(part, file) for part in location.locations)
    return frozenset()


def _infer(known: dict[Operation, frozenset[int]]) -> None:
    """Give operations without a location the lines of the users of their results, or of the operation around."""
    for op in reversed(list(known)):  # users come after the operations that they use
        if not known[op]:
            known[op] = _union(known.get(use.operation, frozenset()) for result in op.results for use in result.uses)
    for op in known:
        if not known[op] and (around := op.parent_op()) is not None:
            known[op] = known.get(around, frozenset())


def _union(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*sets)
