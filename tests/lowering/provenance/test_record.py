import platform
import re
from dataclasses import replace

import pytest

import gathernest as gn
from gathernest.ir.modules.context import make_context, parse_module
from gathernest.kernels.runtime.compile import module_of
from gathernest.lowering.pipeline import parse_passes
from gathernest.lowering.provenance.record import trace_stages
from gathernest.lowering.provenance.trace import Level, Trace
from gathernest.playground.sections import trace

CASES = {
    "rows": ("gather", "100000x64xf32", "20000xi64", {}),
    "scalars": ("gather", "160000xf32", "200000xi64", {}),
    "last axis, staged": ("gather", "8192x1024xf32", "512xi64", {"axis": 1}),
    "tuples, streamed": ("gather_nd", "1000x1000x16xf32", "300000x2xi64", {"bounds": "zero"}),
    "gradient": ("gather_grad", "100000x64xf32", "100000xi64", {"bounds": "clip"}),
}
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")


@pytest.fixture(scope="module")
def traces():
    made: dict[str, Trace] = {}

    def of(name: str) -> Trace:
        if name not in made:
            operator, data, indices, options = CASES[name]
            made[name] = trace(gn.compile(operator, data, indices, **options).plan)
        return made[name]

    return of


def find(level: Level, pattern: str) -> list[int]:
    return [number for number, line in enumerate(level.lines) if re.search(pattern, line.text)]


@pytest.mark.thorough
@pytest.mark.skipif(not IS_X86, reason="the assembly is read on x86-64 only")
@pytest.mark.parametrize("name", CASES)
def test_the_work_of_the_hot_loops_maps_to_the_operator_and_is_the_same_with_lines(traces, name):
    found = traces(name)
    mapped, work = found.mapped
    assert found.same_code
    assert work >= 20
    assert mapped >= 0.95 * work


@pytest.mark.thorough
@pytest.mark.skipif(not IS_X86, reason="the assembly is read on x86-64 only")
def test_a_load_that_names_another_array_than_its_base_register_is_not_mapped(traces):
    found = traces("rows")
    *_, source, _, assembly = found.levels
    (index, *_) = find(source, r"load_i64\(indices")
    hot = {line for loop in assembly.hot_loops for line in loop.lines}
    loads = [line for line in find(assembly, r"vmovu\w+ \d*\(%\w+,%\w+\), %[xyz]mm") if line in hot]
    lines = list(assembly.lines)
    lines[loads[0]] = replace(lines[loads[0]], origins=(index,))
    wrong = replace(found, levels=(*found.levels[:-1], replace(assembly, lines=tuple(lines))))
    assert len(loads) > 2 and wrong.mapped[0] == found.mapped[0] - 1


@pytest.mark.skipif(not IS_X86, reason="the assembly is read on x86-64 only")
def test_the_vector_loads_of_the_assembly_came_from_the_load_of_data_in_the_nest(traces):
    found = traces("rows")
    nest = next(number for number, level in enumerate(found.levels) if level.name == "lower-to-nest")
    (load,) = find(found.levels[nest], r"gather\.masked_load %data")
    last = len(found.levels) - 1
    loads = find(found.levels[last], r"vmovu\w+ \d*\(%\w+,%\w+\), %[xyz]mm")
    assert loads
    for line in loads:
        lines, level = {line}, last
        while level > nest:
            lines = {origin for at in lines for origin in found.levels[level].lines[at].origins}
            level = found.levels[level].origin
        assert lines == {load}


@pytest.mark.thorough
@pytest.mark.skipif(not IS_X86, reason="the assembly is read on x86-64 only")
def test_a_load_that_is_folded_into_a_vector_came_from_the_load_of_data(traces):
    found = traces("last axis, staged")
    *_, source, _, assembly = found.levels
    main = next(loop for loop in assembly.hot_loops if loop.name == "indices_i")
    folded = [
        assembly.lines[at]
        for at in main.lines
        if re.match(r"v?(pinsr|mov)d .*\(%\w+,%\w+,4\)", assembly.lines[at].text)
    ]
    came = [source.lines[at].text.strip() for line in folded for at in line.origins]
    assert len(came) >= 8
    assert [text for text in came if not re.match(r"element_\d+ = load_i32\(data", text)] == []


@pytest.mark.draw(1)
@pytest.mark.parametrize("name", CASES)
def test_every_operation_of_every_stage_came_from_one_of_the_stage_before(traces, name):
    stages = [level for level in traces(name).levels if level.kind == "stage"]
    for stage in stages[1:]:
        alone = [
            line.text.strip() for line in stage.lines if not line.origins and not re.match(r"\s*(}|\^bb0)", line.text)
        ]
        assert alone == [], stage.name


def test_the_levels_link_and_say_what_changed(traces):
    found = traces("rows")
    kinds = [level.kind for level in found.levels]
    assert kinds[-3:] == ["source", "llvm", "assembly"]
    source = len(kinds) - 3
    assert [level.origin for level in found.levels] == [None, *range(source), source, source]
    for level in found.levels[1:]:
        before = found.levels[level.origin]
        assert level.is_changed == (level.text != before.text)
        for line in level.lines:
            assert all(0 <= origin < len(before.lines) for origin in line.origins)
    assert not found.levels[1].is_changed  # normalize-gather has nothing to do


def test_each_line_of_the_source_came_from_the_operation_that_it_prints(traces):
    found = traces("rows")
    source = len(found.levels) - 3
    loops = found.levels[source - 1]
    for pattern, printed in ((r"= load_v\d+xi32\(data", "vector.load %data"), (r"^\s+prefetch_3\(", "memref.prefetch")):
        lines = find(found.levels[source], pattern)
        assert lines
        for line in lines:
            (origin,) = found.levels[source].lines[line].origins
            assert printed in loops.lines[origin].text


@pytest.mark.thorough
def test_stages_are_the_text_that_the_pipeline_gives_without_provenance():
    kernel = gn.compile("gather", "100000x64xf32", "20000xi64")
    stages = trace_stages(module_of(kernel.problem), parse_passes(kernel.pipeline), make_context())
    assert [stage.text for stage in stages] == [stage.text for stage in _plain(kernel)]
    module = parse_module(stages[-1].text)
    assert trace_stages(module, [], make_context(), first="loops")[0].origin is None


def _plain(kernel):
    from gathernest.kernels.runtime.compile import run_stages

    return run_stages(kernel.plan)
