"""What holds for every pass: the same bytes before and after it, and nothing more to do a second time."""

import pytest

from gathernest.ir.context import make_context, parse_module, print_generic, verify_module
from gathernest.lowering.passes import NAMES, load_pass
from gathernest.lowering.pipeline import parse_passes, run_pipeline

OPTIONS = {
    "own-positions": "{owners=2}",
    "tile-loops": "{loops=a sizes=1}",
    "interchange-loops": "{order=a}",
    "parallelize-loops": "{loops=a}",
    "specialize-inner": "{bytes=4}",
    "hoist-indices": "{before=a}",
    "vectorize-inner": "{lanes=4}",
    "unroll": "{loop=a factor=2}",
    "prefetch-indices": "{loop=a}",
    "stream-stores": "",
}
"""Passes of a schedule, which ask for a loop or a size; not in the default order of the others."""
ORDER = [name for name in NAMES if name not in OPTIONS]
ONCE = ("bufferize-gather", "lower-gather-to-nest", "lower-gradient-to-nest", "lower-nest-to-loops")
IDEMPOTENT = [name for name in ORDER if name not in ONCE]
OF_THE_NEST = "canonical,lower-gather-to-nest,lower-gradient-to-nest,fold-bounds,erase-sizes,drop-unit-loops"


def before(name: str) -> str:
    return ",".join(ORDER[: ORDER.index(name)])


@pytest.mark.parametrize("name", ORDER)
def test_pass_keeps_the_bytes(sample, name):
    module = sample.module(before(name))
    sample.check(module)
    run_pipeline(module, name)
    sample.check(module)


@pytest.mark.parametrize("name", IDEMPOTENT)
def test_pass_changes_nothing_the_second_time(sample, name):
    module = sample.module(f"{before(name)},{name}" if before(name) else name)
    text = str(module)
    run_pipeline(module, name)
    assert str(module) == text


@pytest.mark.parametrize("name", ORDER)
def test_module_reads_back_from_both_syntaxes(sample, name):
    module = sample.module(f"{before(name)},{name}" if before(name) else name)
    assert str(parse_module(str(module))) == str(module)
    assert str(parse_module(print_generic(module))) == str(module)


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
    (step,) = parse_passes(name + OPTIONS.get(name, ""))
    step.apply(make_context(), module)
    verify_module(module)
    assert str(module) == "builtin.module {\n}"


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
    run_pipeline(module, schedule.replace("indices", loop))
    sample.check(module)
    run_pipeline(module, "hoist-invariants,lower-nest-to-loops,fold-constants,canonicalize,cse")
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
    run_pipeline(
        module, f"parallelize-loops{{loops={outermost}}},hoist-invariants,lower-nest-to-loops,canonicalize,cse"
    )
    sample.check(module)


def test_all_loops_in_parallel_keep_the_bytes(samples):
    sample = samples["gather-error"]
    loops = "batch,outer,indices,inner,check_batch,check_indices"
    module = sample.module(f"{OF_THE_NEST},parallelize-loops{{loops={loops}}}")
    sample.check(module)
    run_pipeline(module, "hoist-invariants,lower-nest-to-loops,fold-constants,canonicalize,cse")
    assert "scf.for" not in str(module)
    sample.check(module)


def test_tiles_of_tiles_may_run_in_parallel(samples):
    sample = samples["gather-clip"]
    tiles = "tile-loops{loops=batch,indices,indices_i sizes=1,4,2}"
    module = sample.module(f"{OF_THE_NEST},{tiles},parallelize-loops{{loops=batch_o}}")
    sample.check(module)
