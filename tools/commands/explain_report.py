"""The report of `gathernest show --explain`: how far a kernel is from its roofline bound, and why."""

import json

from ...kernels.kernel import Kernel
from ...kernels.roofline.explain import explain
from ..terminal import make_console, progress


def print_explanation(kernel: Kernel, title: str, *, rounds: int, as_json: bool) -> None:
    """Measure a kernel over made-up arrays and print what was found.

    Args:
        kernel: it need not be compiled.
        title: what the first line calls it.
        rounds: how often each schedule is timed.
        as_json: print one JSON object instead.

    Raises:
        SampleError: arrays of its sizes do not fit in memory.
    """
    with progress("explaining") as show:
        explanation = explain(kernel, rounds=rounds, progress=lambda step: show(said=step))
    if as_json:
        print(json.dumps({**explanation.to_json(), "gather": title}))
        return
    console = make_console()
    console.print(title, style="bold")
    for name, lines in explanation.sections().items():
        console.print(f"\n{name}", style="bold")
        console.print("\n".join(lines))
