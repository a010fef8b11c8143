"""`gathernest show`: any stage of any gather, as text or as a picture of its loops."""

import argparse
import json

from ..ir.array_spec import ArraySpec
from ..ir.errors import InvalidGatherError, did_you_mean
from ..kernels.kernel import Kernel, compile

CODE_STAGES = ("source", "llvm", "asm")
OVERVIEW = (
    ("operator", "the operator", False),
    ("collapse-dims", "canonical: dimensions merged, elements erased to their width", False),
    ("lower-gather-to-nest", "the nest", True),
    ("hoist-invariants", "the scheduled nest", True),
)


def run_show(options: argparse.Namespace) -> int:
    """Print what the command line asks for; return 0."""
    kernel = compile(
        options.operator,
        ArraySpec.parse(options.data),
        ArraySpec.parse(options.indices),
        options.axis,
        batch_dims=options.batch_dims,
        bounds=options.bounds,
        schedule=options.schedule,
    )
    stages = kernel.stages
    names = list(stages) if options.stage == "all" else [options.stage] if options.stage else []
    for name in names:
        _check_name(name, stages)
    if options.json:
        chosen = {name: stage_text(kernel, stages, name, picture=options.picture) for name in names or stages}
        print(
            json.dumps(
                {"key": kernel.key, "pipeline": kernel.pipeline, "schedule": str(kernel.schedule), "stages": chosen}
            )
        )
    elif options.stage == "list":
        print("\n".join([*stages, *CODE_STAGES]))
    elif names:
        for name in names:
            if len(names) > 1:
                print(f"// after {name}" if name != "operator" else "// operator")
            print(stage_text(kernel, stages, name, picture=options.picture))
    else:
        print_overview(kernel, stages)
    return 0


def stage_text(kernel: Kernel, stages: dict[str, str], name: str, *, picture: bool) -> str:
    """Return one stage: its MLIR text, a picture of its loops where it has some, or generated code."""
    if name == "list":
        return "\n".join([*stages, *CODE_STAGES])
    if name == "source":
        return kernel.source
    if name == "llvm":
        return kernel.llvm_ir()
    if name == "asm":
        return kernel.asm()
    return nest_picture(stages[name]) if picture and has_loops(stages, name) else stages[name]


def has_loops(stages: dict[str, str], name: str) -> bool:
    """Return whether a stage has loops to draw: from `lower-gather-to-nest` on."""
    order = list(stages)
    return order.index(name) >= order.index("lower-gather-to-nest")


def nest_picture(text: str) -> str:
    """Return the loops of a stage as a person would draw them."""
    from ..ir.context import parse_module
    from ..ir.print_nest import print_loop_nest

    return print_loop_nest(parse_module(text))


def print_overview(kernel: Kernel, stages: dict[str, str]) -> None:
    """Print the stages that tell most, in short."""
    for name, title, picture in OVERVIEW:
        print(f"== {title} (--stage {name}{' --picture' if picture else ''})\n")
        print(nest_picture(stages[name]) if picture else stages[name])
    print(f"== the schedule\n\n{kernel.schedule or 'none'}\n")
    print("More: --stage all, list, source, llvm, asm, or the name of a pass.")


def _check_name(name: str, stages: dict[str, str]) -> None:
    allowed = [*stages, *CODE_STAGES, "list", "all"]
    if name not in allowed:
        raise InvalidGatherError(
            f"there is no stage {name!r}; use one of {', '.join(allowed)}{did_you_mean(name, allowed)}"
        )
