"""The tutorial, a marimo notebook: `marimo edit docs/tutorial.py` changes its cells, `python docs/tutorial.py` runs it.

Every number that it says is measured or counted by its code.
"""

import marimo

app = marimo.App(app_title="gathernest: an hour with one gather")


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # An hour with one gather

    You take one gather through all stages of its lowering, write a schedule for it, see why it is slow or fast, write a
    pass of your own, and prove that the pass is right.

    ```sh
    pip install "gathernest[play,prove]"
    marimo edit docs/tutorial.py
    ```

    In the editor you can change each cell, and those that depend on it run again. Words are explained in the
    [glossary](glossary.md).
    """)
    return


@app.cell
def _():
    import marimo as mo
    import numpy as np

    import gathernest as gn

    return gn, mo, np


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## 1. From the operator to machine code

    The gather takes 6000 rows of 64 floats from each of 16 tables. An index below 0 counts from the end
    (`bounds="wrap"`). NumPy calls it `np.take(data, indices, axis=1, mode="wrap")`.
    """)
    return


@app.cell
def _(gn, np):
    rng = np.random.default_rng(0)
    data = rng.random((16, 4000, 64), np.float32)
    indices = rng.integers(-4000, 4000, 6000)
    kernel = gn.compile("gather", data, indices, axis=1, bounds="wrap", schedule="")
    assert (kernel(data, indices) == np.take(data, indices, axis=1, mode="wrap")).all()
    return data, indices, kernel


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    `schedule=""` means: no schedule yet. The compiler begins with the operator as its document states it, on tensors:
    """)
    return


@app.cell
def _(kernel, mo):
    mo.plain_text(kernel.stages["operator"])
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    Then one pass follows another, and each makes a small change. A stage is the module after a pass:
    """)
    return


@app.cell
def _(kernel, mo):
    _lines, _before = [], ""
    for _name, _text in kernel.stages.items():
        _new = sum(line not in _before.splitlines() for line in _text.splitlines())
        _lines.append(f"{_name:<22}{len(_text.splitlines()):>4} lines, {_new:>3} of them new")
        _before = _text
    mo.plain_text("\n".join(_lines))
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    After `lower-to-nest` there is a loop nest, and after `fold-bounds` the arithmetic of `wrap` is in it. A
    nest is easier to read as a picture, with one line for each loop:
    """)
    return


@app.cell
def _(gn, data, indices, mo):
    begun = gn.schedule("gather", data, indices, axis=1, bounds="wrap")
    mo.plain_text(begun.nest)
    return (begun,)


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    `outer` counts the 16 tables, `indices` the positions, and `inner` the floats of a row. A schedule will change how
    these loops run. At the end the nest becomes loops of MLIR's own dialects, then Python source, which Numba and
    LLVM compile:
    """)
    return


@app.cell
def _(kernel, mo):
    mo.plain_text(kernel.source)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    `trace` lowers the gather once more, and keeps for each line of a level the lines that it came from. Here is one
    load of the innermost loop, followed back to the operator:
    """)
    return


@app.cell
def _(kernel, mo):
    from gathernest.playground.sections import trace

    traced = trace(kernel.plan)
    _assembly = traced.levels[-1]
    _loops = [loop.lines for loop in _assembly.loops if loop.is_hot]
    _at = {next(at for lines in _loops for at in lines if _assembly.lines[at].kind == "load")}
    _level, _shown = len(traced.levels) - 1, []
    while _at:
        _now = traced.levels[_level]
        if _now.is_changed:
            _shown += [f"{_now.name}:", *(f"    {_now.lines[at].text.strip()}" for at in sorted(_at)[:3])]
        if _now.origin is None:
            break
        _at, _level = {came for at in _at for came in _now.lines[at].origins}, _now.origin
    mo.plain_text("\n".join(_shown))
    return (traced,)


@app.cell(hide_code=True)
def _(mo, traced):
    _mapped, _all = traced.mapped
    mo.md(f"{_mapped} of the {_all} instructions that work in the hot loops come from a line of the operator.")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    `gathernest report` draws all this as one page, in which a click on a line lights up where it came from.

    ## 2. Your first schedule

    Begin with the nest, and add step after step. Each is checked and applied at once.
    """)
    return


@app.cell
def _(gn, data, indices, mo):
    script = gn.schedule("gather", data, indices, axis=1, bounds="wrap")
    script.tile("indices", 256)
    script.interchange("indices_o", "outer")
    script.parallel("indices_o")
    script.stage_indices("outer")
    script.vectorize("inner", 8)
    mo.plain_text(script.nest)
    return (script,)


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    From outside to inside: threads share tiles of 256 indices. A tile resolves its indices once, into `positions`,
    and uses them for each of the 16 tables. Eight floats are copied at a time, and `inner_rest` copies the
    rest, which fills no vector.

    Not every step is legal. A step that would change the result is rejected, with the loop marked and a way out:
    """)
    return


@app.cell
def _(gn, mo, script):
    try:
        script.parallel("inner")
        raise AssertionError("the step is legal now: change the text of this page")
    except gn.ScheduleError as _error:
        rejected = str(_error)
    mo.plain_text(rejected)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    The nest is as it was before the step. A schedule never changes a byte of the result, so the kernel gives the same
    array:
    """)
    return


@app.cell
def _(data, indices, kernel, script):
    scheduled = script.compile()
    assert (scheduled(data, indices) == kernel(data, indices)).all()
    return (scheduled,)


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    **Try it.** Write the same with a tile of 64, or leave out `stage_indices`. `script.undo()` takes a step back, and
    `print(script.trace)` prints the script as Python. [The page on schedules](schedules.md) has all steps.
    `gathernest play` is a page where you type steps and see nest, bytes, time and machine code at once.

    ## 3. Why is it slow or fast?

    Time some schedules in turn, so that a busy machine slows all of them alike, beside a plain copy of the same size:
    """)
    return


@app.cell
def _(data, gn, indices, kernel, np, scheduled):
    from gathernest.kernels.host.timing import time_interleaved
    from gathernest.kernels.machine.traffic import fewest_bytes

    vectors = gn.schedule("gather", data, indices, axis=1, bounds="wrap").vectorize("inner", 8)
    threads = gn.schedule("gather", data, indices, axis=1, bounds="wrap").parallel("outer").vectorize("inner", 8)
    kernels = {
        "as it comes": kernel,
        "vectors": vectors.compile(),
        "threads and vectors": threads.compile(),
        "the script above": scheduled,
        "chosen by the sizes": gn.compile("gather", data, indices, axis=1, bounds="wrap"),
    }
    out = np.empty((16, 6000, 64), np.float32)
    traffic = fewest_bytes(kernels["vectors"].problem, indices)
    source = np.zeros(int(traffic.total_bytes) // 2, np.uint8)  # half of a copy's bytes are read, half written
    target = np.empty_like(source)
    calls = {name: lambda run=run: run(data, indices, out) for name, run in kernels.items()}
    timings = time_interleaved({**calls, "a plain copy": lambda: np.copyto(target, source)}, rounds=5)
    return kernels, timings, traffic


@app.cell
def _(mo, timings, traffic):
    _rows = [f"{traffic.total_bytes / 1e6:.1f} MB at least are read and written, in {traffic.lines:,.0f} lines of data"]
    for _name in timings.rounds_s:
        _time_s = timings.median_s(_name)
        _rows.append(f"{_name:<22}{1e3 * _time_s:8.2f} ms {traffic.total_bytes / _time_s / 1e9:8.1f} GB/s")
    mo.plain_text("\n".join(_rows))
    return


@app.cell(hide_code=True)
def _(kernel, mo, timings):
    def ratio(name, beside):
        return f"{timings.ratio(name, beside):.1f} times as fast"

    wide = sum("ymm" in line or "zmm" in line for line in kernel.asm().splitlines())
    mo.md(f"""
    A gather computes next to nothing, so its time is the time of its bytes. On this machine:

    * **Vectors**: {ratio("vectors", "as it comes")} as the nest as it comes. That has {wide} instructions with wide
      vectors already, as LLVM vectorizes a plain loop by itself.
    * **Threads**: {ratio("threads and vectors", "vectors")} as vectors alone. Rows lie anywhere in memory, and a core
      waits for a line that no cache has. Another core has lines of its own on their way meanwhile.
    * **Tiles with staged indices**: {ratio("the script above", "threads and vectors")} as threads and vectors. An
      index is read and resolved once, and not once for each table.
    * **What the sizes choose**: {ratio("chosen by the sizes", "the script above")} as the script above, and
      {ratio("chosen by the sizes", "a plain copy")} as the plain copy on one thread.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    Why the sizes choose this schedule, the compiler says itself:
    """)
    return


@app.cell
def _(kernels, mo):
    _plan = kernels["chosen by the sizes"].plan
    mo.plain_text("\n".join([*str(_plan.schedule).replace("},", "}\n").splitlines(), "", *_plan.reasons]))
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    **Try it.** `print(kernels["vectors"].explain())` measures the roofline bound of your machine, which takes a while
    the first time, and times the schedule without each of its passes.

    ## 4. Your first pass

    A pass is a frozen dataclass with a name and a method `apply`, which changes the module. This one lets a loop run
    backwards: where the body used `i`, it uses `last - i`. There is a mistake in it.
    """)
    return


@app.cell
def _():
    from dataclasses import dataclass

    from xdsl.dialects import arith
    from xdsl.dialects.builtin import IndexType
    from xdsl.passes import ModulePass
    from xdsl.rewriter import InsertPoint, Rewriter

    from gathernest.ir.dialects.gather_dialect import LoopOp

    @dataclass(frozen=True)
    class RunBackwards(ModulePass):
        """Run a loop of step 1 backwards."""

        name = "run-backwards"
        loop: str

        def apply(self, ctx, op):
            for each in op.walk():
                if isinstance(each, LoopOp) and each.label == self.loop:
                    self.reverse(each)

        def reverse(self, loop):
            block = loop.body.block
            induction = block.args[0]
            reversed_ = arith.SubiOp(loop.upper, induction, IndexType())
            induction.replace_all_uses_with(reversed_.result)
            reversed_.operands[1] = induction
            Rewriter.insert_op(reversed_, InsertPoint.at_start(block))

    return (IndexType, InsertPoint, LoopOp, ModulePass, Rewriter, RunBackwards, arith, dataclass)


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    Put it into the pipeline, behind the schedule. `gn.bisect` interprets each stage on small arrays, compares the
    bytes with the operator, and names the first pass that is wrong, with the smallest example that it finds:
    """)
    return


@app.cell
def _(gn, kernel):
    from gathernest.lowering.pipeline import parse_passes

    def bisected(own):
        """Return the first wrong pass of the pipeline with one's own pass behind the schedule."""
        passes = parse_passes(kernel.pipeline)
        place = [step.name for step in passes].index("hoist-invariants")
        pipeline = [*passes[:place], own, *passes[place:]]
        return gn.bisect("gather", "3x5x4xf32", "6xi64", axis=1, bounds="wrap", pipeline=pipeline)

    return bisected, parse_passes


@app.cell
def _(RunBackwards, bisected, mo):
    wrong = bisected(RunBackwards("indices"))
    assert wrong is not None and wrong.name.startswith("run-backwards")
    mo.plain_text(str(wrong))
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    The first iteration uses `upper - 0`, which is one behind the end. The last iteration has to be `upper - 1`:
    """)
    return


@app.cell
def _(IndexType, InsertPoint, Rewriter, RunBackwards, arith, bisected, dataclass):
    @dataclass(frozen=True)
    class RunBackwardsFromLast(RunBackwards):
        """Run a loop of step 1 backwards, from its last iteration."""

        def reverse(self, loop):
            super().reverse(loop)
            reversed_ = loop.body.block.first_op
            one = arith.ConstantOp.from_int_and_width(1, IndexType())
            last = arith.SubiOp(loop.upper, one.result, IndexType())
            Rewriter.insert_op([one, last], InsertPoint.before(loop))
            reversed_.operands[0] = last.result

    assert bisected(RunBackwardsFromLast("indices")) is None
    return (RunBackwardsFromLast,)


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    No stage is wrong now. The nest shows the loop:
    """)
    return


@app.cell
def _(RunBackwardsFromLast, mo, parse_passes):
    from gathernest.ir.modules.context import make_context
    from gathernest.ir.modules.operator_module import gather_module
    from gathernest.ir.modules.pseudocode import print_loop_nest

    def operator():
        """Return the gather at the operator level."""
        return gather_module("3x5x4xf32", "6xi64", axis=1, bounds="wrap")

    module = operator()
    for _step in [*parse_passes("nest,erase-sizes,drop-unit-loops"), RunBackwardsFromLast("indices")]:
        _step.apply(make_context(), module)
    mo.plain_text(print_loop_nest(module))
    return make_context, operator


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    **Try it.** Reverse `inner` and `outer` as well. A pass that is to be known by its name everywhere goes into a
    package: `examples/gather_sort_pass` is a complete one.

    ## 5. Prove it

    Interpretation tries some sizes. A proof holds for all of them: each element of the result is written, from the
    right element of data, and no access is outside its array.
    """)
    return


@app.cell
def _(RunBackwards, RunBackwardsFromLast, make_context, mo, operator, parse_passes):
    from gathernest.lowering.proof.prover import prove_passes

    verdicts = [
        list(prove_passes(operator(), [*parse_passes("nest,erase-sizes"), own("indices")], make_context()))[-1]
        for own in (RunBackwardsFromLast, RunBackwards)
    ]
    assert [str(verdict.status) for verdict in verdicts] == ["proved", "refuted"]
    mo.plain_text("\n\n".join(map(str, verdicts)))
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    The pass with the mistake is refuted, with a gather on which it goes wrong.

    ## Where to go next

    * [Run a stage](playground.md), [step through one element](playground.md#step-through-one-element), and
      [find the pass that broke it](playground.md#find-the-wrong-pass)
    * [Schedules, step by step](schedules.md)
    * [Writing and debugging passes](writing_passes.md)
    * [Proofs of passes](proof.md)
    * [How it is built](architecture.md)
    """)
    return


if __name__ == "__main__":
    app.run()
