"""Shared by the tests of reports: a trace by hand, and an explanation that nothing was timed for."""

import pytest

import gathernest as gn
from gathernest.kernels.machine.explain import Ablation, Explanation
from gathernest.kernels.machine.roofline import Bound
from gathernest.kernels.machine.traffic import Traffic
from gathernest.lowering.provenance.trace import Level, Line, MachineLoop, Trace
from gathernest.playground.caches import caches_of
from gathernest.playground.sections import Figure, Section, element_steps, pass_lines

TILED = "tile-loops{loops=indices sizes=64}"


@pytest.fixture(scope="session")
def explanation() -> Explanation:
    traffic = Traffic((("indices", 800.0), ("data", 25600.0), ("output", 25600.0)), lines=400.0, piece_lines=4.0)
    bound = Bound(traffic, copy_us=2.0, lines_us=3.0)
    ways = {"copy": "plain stores", "random lines": "8 at a time"}
    return Explanation(
        gather="gather 1000x64xf32 by 100xi64",
        schedule=f"{TILED},vectorize-inner{{lanes=8}}",
        reasons=("rows are <long>",),
        bound=Bound(traffic, 2.0, 3.0, 2, ways, dict.fromkeys(ways, (2.0, 3.0))),
        model_bound=bound,
        machine="zen4",
        measured_us=6.0,
        fastest_us=5.0,
        rounds=9,
        predicted_us=4.0,
        ablations=(Ablation(TILED, 9.0, 1.5), Ablation("vectorize-inner{lanes=8}", rejected="no & never")),
    )


# What a model could be named, to leave the page that it stands in.
HOSTILE = "</script><script>alert('&')</script>"


def lines(*texts: str, origins: tuple[tuple[int, ...], ...] = (), kinds: tuple[str, ...] = ()) -> tuple[Line, ...]:
    """Return lines with their origins and kinds, which end early where the others have none."""
    none = [()] * len(texts), [""] * len(texts)
    return tuple(map(Line, texts, [*origins, *none[0]][: len(texts)], [*kinds, *none[1]][: len(texts)]))


@pytest.fixture
def trace() -> Trace:
    """A gather of two lines, which a pass makes three, in a loop and a copy of it."""
    return Trace(
        (
            Level("operator", "stage", lines("func.func @gather() {", f"  gather.gather {HOSTILE}", "}"), None),
            Level("same", "stage", lines("a", "b", "c", origins=((0,), (1,), (2,))), 0, False, 0.5, 4),
            Level(
                "lower{to=nest}",
                "stage",
                lines("func.func @gather() {", "  %0 = load", "  store %0", "}", origins=((0,), (1,), (1,), (2,))),
                *(1, True, 1.5, 5),
            ),
            Level(
                "source",
                "source",
                lines("# head", "v = load_i32(data, 0)", "store_i32(out, 0, v)", origins=((), (1,), (2,))),
                2,
            ),
            Level("LLVM IR", "llvm", lines("define", "  load", "  store", "}", "!0", origins=((), (1,), (2,))), 3),
            Level(
                "assembly",
                "assembly",
                lines(
                    *("kernel:", "push %rbx", ".L1:", "mov (%rax), %rbx", "mov %rbx, (%rcx)", "jne .L1", "ret"),
                    origins=((), (), (), (1,), (2,), (2,)),
                    kinds=("", "other", "", "load", "store", "branch", "branch"),
                ),
                *(3, True, 0.0, 0, (MachineLoop((2, 3, 4, 5), 1, True),)),
            ),
        ),
        same_code=True,
    )


@pytest.fixture
def section(trace: Trace, explanation: Explanation) -> Section:
    """A section whose name, gather and remark come from somebody else's model."""
    plan = gn.compile("gather", "100x64xf32", "10xi64").plan
    streams = explanation.model_bound.traffic.streams
    figures = (Figure(HOSTILE, HOSTILE, '<svg><rect data-line="1"></rect></svg>', 2),)
    facts = plan.problem, plan.layout.width_bytes, pass_lines(str(plan.schedule)), plan.reasons, plan.pipeline
    return Section(
        HOSTILE,
        f"gather {HOSTILE}",
        *facts,
        trace,
        (),
        streams,
        figures,
        element_steps(plan),
        caches_of(plan),
        explanation,
        "",
        (HOSTILE,),
    )
