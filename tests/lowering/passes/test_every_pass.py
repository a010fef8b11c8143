"""What holds for every pass: the same bytes before and after it, and nothing more to do a second time."""

from typing import get_args, get_type_hints

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, UnknownLoc
from xdsl.traits import IsTerminator

from gathernest.ir.errors import ScheduleError
from gathernest.ir.modules.context import make_context, parse_module, verify_module
from gathernest.lowering.pipeline import parse_passes, run_passes
from gathernest.lowering.registry import NAMES, load_pass
from gathernest.lowering.schedule.steps import STEPS

WORDS = {"what": "slices", "how": "staged"}


def with_options(name: str) -> str:
    """Return a pass with what it asks for: the loop `a`, a number, or one of its words."""
    kinds = get_type_hints(load_pass(name))
    asked = load_pass(name).required_fields()
    numbers = {field for field in asked if int in (kinds[field], *get_args(kinds[field]))}
    given = [f"{field}={4 if field in numbers else WORDS.get(field, 'a')}" for field in asked]
    return f"{name}{{{' '.join(given)}}}"


ORDER = [name for name in NAMES if name not in STEPS]
ONCE = ("bufferize-gather", "lower-to-nest", "lower-nest-to-loops")
IDEMPOTENT = [name for name in ORDER if name not in ONCE]
TO_LOOPS = "hoist-invariants,lower-nest-to-loops,fold-constants,canonicalize,cse"
OF_THE_NEST = "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops"


def before(name: str) -> str:
    return ",".join(map(with_options, ORDER[: ORDER.index(name)]))


@pytest.mark.parametrize("name", ORDER)
def test_pass_keeps_the_bytes(sample, name):
    module = sample.module(before(name))  # whose bytes the test of the pass before has checked
    run_passes(module, with_options(name), make_context())
    sample.check(module)


@pytest.mark.parametrize("name", IDEMPOTENT)
def test_pass_changes_nothing_the_second_time(sample, name):
    module = sample.module(",".join(filter(None, [before(name), with_options(name)])))
    text = str(module)
    run_passes(module, with_options(name), make_context())
    assert str(module) == text


@pytest.mark.parametrize("name", ORDER)
def test_what_a_pass_makes_has_the_location_of_what_it_is_made_from(sample, name):
    module = sample.module(before(name))
    for op in module.walk():
        op.location = FileLineColLoc(StringAttr("stage.mlir"), IntAttr(1), IntAttr(1))
    run_passes(module, with_options(name), make_context())
    lost = {op.name for op in module.walk() if isinstance(op.location, UnknownLoc) and not op.has_trait(IsTerminator)}
    assert lost == set()


@pytest.mark.draw(15)
@pytest.mark.parametrize("name", ORDER)
def test_module_reads_back_from_both_syntaxes(sample, name):
    module = sample.module(",".join(filter(None, [before(name), with_options(name)])))
    sample.check_reads_back(module)


@pytest.mark.parametrize("name", NAMES)
def test_pass_says_what_it_does_in_its_docstring(name):
    loaded = load_pass(name)
    text = loaded.__doc__ or ""
    summary = text.partition("\n")[0]
    assert loaded.name == name
    assert summary.endswith(".")
    assert len(summary) <= 72
    assert all(section in text for section in ("Preconditions", "Input:", "Output:"))


@pytest.mark.parametrize("name", NAMES)
def test_empty_module_passes_through(name):
    module = parse_module("builtin.module {\n}")
    (step,) = parse_passes(with_options(name))
    step.apply(make_context(), module)
    verify_module(module)
    assert str(module) == "builtin.module {\n}"


@pytest.mark.draw(10)
@pytest.mark.parametrize(
    "schedule",
    [
        "tile-loops{loops=indices sizes=1}",
        "tile-loops{loops=indices sizes=2}",
        "tile-loops{loops=indices sizes=3}",
        "tile-loops{loops=indices sizes=100}",
        "tile-loops{loops=indices,indices_i sizes=4,2}",
    ],
)
def test_tiles_keep_the_bytes(sample, schedule):
    module = sample.module(OF_THE_NEST)
    labels = [op.label for op in module.walk() if op.name == "gather.loop"]
    loop = "indices" if "indices" in labels else labels[-1]
    run_passes(module, schedule.replace("indices", loop), make_context())
    sample.check(module)
    run_passes(module, TO_LOOPS, make_context())
    sample.check(module)


@pytest.mark.parametrize("bounds", ["zero", "clip", "error"])
@pytest.mark.parametrize(
    "order", ["inner,indices,outer,batch", "indices,batch,inner,outer", "outer,batch,indices,inner"]
)
def test_every_order_keeps_the_bytes(samples, bounds, order):
    sample = samples[f"gather-{bounds}"]
    module = sample.module(f"{OF_THE_NEST},interchange-loops{{order={order}}}")
    sample.check(module)
    outermost = order.partition(",")[0]
    parallel = f"parallelize-loops{{loops={outermost}}},hoist-invariants,lower-nest-to-loops,canonicalize,cse"
    run_passes(module, parallel, make_context())
    sample.check(module)


def test_all_loops_in_parallel_keep_the_bytes(samples):
    sample = samples["gather-error"]
    loops = "batch,outer,indices,inner,check_indices"
    module = sample.module(f"{OF_THE_NEST},parallelize-loops{{loops={loops}}}")
    sample.check(module)
    run_passes(module, TO_LOOPS, make_context())
    assert "scf.for" not in str(module)
    sample.check(module)


def test_tiles_of_tiles_may_run_in_parallel(samples):
    sample = samples["gather-clip"]
    tiles = "tile-loops{loops=batch,indices,indices_i sizes=1,4,2}"
    module = sample.module(f"{OF_THE_NEST},{tiles},parallelize-loops{{loops=batch_o}}")
    sample.check(module)


TILED = "tile-loops{loops=LOOPS sizes=SIZES}"
SCHEDULES = {
    "hoist-vectorize-prefetch": f"{TILED},hoist-indices{{before=FIRST}},vectorize-inner{{lanes=2}},"
    "prefetch{what=rows loop=LAST ahead=2 lines=2}",
    "vectorize-twice": "vectorize-inner{lanes=4},vectorize-inner{lanes=2}",
    "vectorize-stream": "vectorize-inner{lanes=2},stream-stores",
    "unroll": "unroll{loop=DEEPEST factor=3}",
    "unroll-the-rest": "vectorize-inner{lanes=4},unroll{loop=DEEPEST_rest factor=2}",
    "prefetch-twice": "prefetch{what=rows loop=COUNTING},prefetch{what=rows loop=COUNTING ahead=3}",
    "prefetch-whole-rows": "vectorize-inner{lanes=2},prefetch{what=rows loop=COUNTING ahead=2 lines=0},stream-stores",
    "unroll-then-vectorize": "unroll{loop=DEEPEST factor=2},vectorize-inner{lanes=2}",
}


def scheduled(sample, schedule: str) -> str:
    """Return a schedule with the names of the loops of a sample's nest."""
    labels = [op.label for op in sample.module(OF_THE_NEST).walk() if op.name == "gather.loop"]
    copy = [label for label in labels if not label.startswith("check_")]
    counting = [label for label in copy if label.partition("_")[0] in ("batch", "indices")] or copy[-1:]
    names = {"LOOPS": ",".join(counting), "SIZES": ",".join("2" for _ in counting), "FIRST": f"{counting[-1]}_i"}
    names |= {"LAST": f"{counting[-1]}_i", "COUNTING": counting[-1], "DEEPEST": copy[-1]}
    for name, label in names.items():
        schedule = schedule.replace(name, label)
    return schedule


@pytest.mark.draw(15)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_pass_of_a_schedule_keeps_the_bytes_or_rejects(sample, schedule):
    pipeline = OF_THE_NEST
    for step in parse_passes(scheduled(sample, SCHEDULES[schedule])):
        try:
            sample.check(sample.module(f"{pipeline},{step}"))
        except ScheduleError:
            break
        pipeline = f"{pipeline},{step}"
    sample.check(sample.module(f"{pipeline},{TO_LOOPS}"))


@pytest.mark.parametrize("name", ["gather-zero", "gather-clip", "gather-error", "gather-nd", "gather-uint8"])
@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if name != "unroll-then-vectorize"])
def test_pass_of_a_schedule_is_legal_for_a_gather_of_rows(samples, schedule, name):
    sample = samples[name]
    module = sample.module(f"{OF_THE_NEST},{scheduled(sample, SCHEDULES[schedule])}")
    sample.check(module)
    sample.check_reads_back(module)


GRADIENTS = ["grad-zero", "grad-error", "grad-strided", "grad-uint8", "grad-complex", "grad-nd", "grad-elements"]


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize(
    ("step", "message"), [("hoist-indices{before=LAST}", "hoist-indices: expected .* to be a loop that copies")]
)
def test_pass_of_copies_rejects_a_gradient(samples, name, step, message):
    sample = samples[name]
    labels = [op.label for op in sample.module(OF_THE_NEST).walk() if op.name == "gather.loop"]
    with pytest.raises(ScheduleError, match=message):
        sample.module(f"{OF_THE_NEST},{step.replace('LAST', labels[0])}")


def test_rows_of_a_gradient_are_added_as_vectors_and_elements_at_places_of_their_own_are_not(samples):
    for name in GRADIENTS:
        if name == "grad-elements":
            with pytest.raises(ScheduleError, match="vectorize-inner: iterations of inner do not add side by side"):
                samples[name].module(f"{OF_THE_NEST},vectorize-inner{{lanes=2}}")
        else:
            samples[name].check(samples[name].module(f"{OF_THE_NEST},vectorize-inner{{lanes=2}}"))


@pytest.mark.parametrize("name", GRADIENTS)
def test_zeros_of_a_gradient_are_streamed(samples, name):
    sample = samples[name]
    module = sample.module(f"{OF_THE_NEST},stream-stores")
    assert "nontemporal" in str(module)
    sample.check(module)


@pytest.mark.draw(3)
@pytest.mark.parametrize("name", GRADIENTS)
def test_every_loop_of_a_gradient_keeps_its_bytes_unrolled_or_prefetched_or_rejects(samples, name):
    sample = samples[name]
    labels = [op.label for op in sample.module(OF_THE_NEST).walk() if op.name == "gather.loop"]
    legal = 0
    for step in ("unroll{loop=%s factor=2}", "prefetch{what=rows loop=%s}"):
        for label in labels:
            try:
                module = sample.module(f"{OF_THE_NEST},{step % label}")
            except ScheduleError:
                continue
            sample.check(module)
            legal += 1
    assert legal > 0
