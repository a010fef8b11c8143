"""The option --prove of `gathernest-opt`: a line for each pass, and the gather that shows what is wrong."""

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...kernels.host.dependencies import require
from ...lowering.report_file import save_report


def proof_lines(module: ModuleOp, passes: Sequence[ModulePass], context: Context) -> tuple[str, bool]:
    """Run passes on a module and return what is known of each, as text, and whether one is refuted.

    The stage of the first refuted pass goes to a file, with the command that runs it on the counterexample.

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
            saved = save_report(f"{module!s}\n", ".mlir")
            lines.append(f"  run it: {verdict.example.command(str(saved))}")
        is_refuted = True
    return "\n".join([*lines, ""]), is_refuted
