"""The option --prove of `gathernest-opt`: a line for each pass, and the gather that shows what is wrong."""

from collections.abc import Sequence
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...kernels.host.dependencies import require


def proof_lines(
    module: ModuleOp, passes: Sequence[ModulePass], context: Context, reproducer: Path | None
) -> tuple[str, bool]:
    """Run passes on a module and return what is known of each, as text, and whether one is refuted.

    The text has the command that runs the module behind the first refuted pass on the counterexample. That module goes
    to the file `reproducer`, where one is given.

    Raises:
        DependencyError: islpy or z3 is not installed.
        GathernestError: a pass rejects the module.
    """
    require("islpy", "z3-solver")
    from ...lowering.proof.prover import Status, prove_passes

    lines: list[str] = []
    is_refuted = False
    for verdict in prove_passes(module, passes, context):
        lines.append(str(verdict))
        if verdict.status is not Status.REFUTED:
            continue
        if not is_refuted and verdict.example is not None and verdict.example.command("FILE"):
            if reproducer is not None:
                reproducer.write_text(f"{module!s}\n", encoding="utf-8")
            which = " with the module that --reproducer FILE writes" if reproducer is None else ""
            lines.append(f"  run it{which}: {verdict.example.command(str(reproducer or 'FILE'))}")
        is_refuted = True
    return "\n".join([*lines, ""]), is_refuted
