"""The option --prove of `gathernest-opt`: a line for each pass, and the gather that shows what is wrong."""

import tempfile
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ...kernels.host.dependencies import require


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
            lines.append(f"  run it: {verdict.example.command(_saved(module))}")
        is_refuted = True
    return "\n".join([*lines, ""]), is_refuted


def _saved(module: ModuleOp) -> str:
    with tempfile.NamedTemporaryFile("w", prefix="gathernest-", suffix=".mlir", delete=False, encoding="utf-8") as file:
        file.write(f"{module!s}\n")
    return file.name
