"""What a command prints while passes run: modules before and after them and after one that fails, and their times."""

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...ir.errors import GathernestError, did_you_mean
from .terminal import UsageError
from .time_table import time_table

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

    from ...lowering.pipeline import Stage


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    for when in ("before", "after"):
        where = f"print the module {when}"
        parser.add_argument(f"--print-ir-{when}", metavar="PASS,..", help=f"{where} these passes, to standard error")
        parser.add_argument(f"--print-ir-{when}-all", action="store_true", help=f"{where} every pass")
    parser.add_argument(
        "--print-ir-after-change", action="store_true", help="print it after each pass, or those named, that changed it"
    )
    parser.add_argument("--print-ir-after-failure", action="store_true", help="print it after a pass that fails")


def add_timing(parser: argparse.ArgumentParser) -> None:
    """Declare the option that `run_watched` reads beside those of `add_arguments`."""
    parser.add_argument("--timing", action="store_true", help="print how long each pass took, to standard error")


def with_all(words: Sequence[str]) -> list[str]:
    """Return command line words with `--print-ir-after` as `--print-ir-after-all`, where no names of passes follow."""
    following = [re.fullmatch(r"([a-z][a-z0-9,-]*)?", word) for word in words[1:]]  # nothing is told by `Watch.of`
    return [
        f"{word}-all" if word in ("--print-ir-before", "--print-ir-after") and names is None else word
        for word, names in zip(words, [*following, None], strict=False)
    ]


@dataclass(frozen=True, slots=True)
class Watch:
    """Which modules to print.

    Attributes:
        before, after: the passes around which it is printed.
        is_of_changes: whether it is printed after them only where they changed it.
        is_of_failures: whether it is printed after a pass that fails.
    """

    before: frozenset[str] = field(default_factory=frozenset)
    after: frozenset[str] = field(default_factory=frozenset)
    is_of_changes: bool = False
    is_of_failures: bool = False

    @classmethod
    def of(cls, args: argparse.Namespace, passes: "Sequence[ModulePass]") -> "Watch":
        """Return what a command line asks for; raises UsageError for a pass that the pipeline lacks."""
        names = list(dict.fromkeys(step.name for step in passes))
        before = names if args.print_ir_before_all else _named("before", args.print_ir_before, names)
        every = args.print_ir_after_all or (args.print_ir_after_change and args.print_ir_after is None)
        after = names if every else _named("after", args.print_ir_after, names)
        return cls(frozenset(before), frozenset(after), args.print_ir_after_change, args.print_ir_after_failure)

    def see(self, stages: "Sequence[Stage]", passes: "Sequence[ModulePass]") -> None:
        """Print the last of the stages, where it is asked for."""
        stage, number = stages[-1], len(stages) - 1
        is_changed = number == 0 or stage.text != stages[-2].text
        if number and stage.pass_name in self.after and (is_changed or not self.is_of_changes):
            print_module(f"After {stage.pass_name}", stage.text)
        if number < len(passes) and passes[number].name in self.before:
            print_module(f"Before {passes[number].name}", stage.text)

    def see_failure(self, stages: "Sequence[Stage]", passes: "Sequence[ModulePass]", text: str) -> None:
        """Print the module that the pass behind the last stage left when it failed, where it is asked for."""
        if self.is_of_failures and 0 < len(stages) <= len(passes):
            print_module(f"After {passes[len(stages) - 1].name} Failed", text)


def run_watched(
    stages: "Iterable[Stage]",
    module: Any,
    passes: "Sequence[ModulePass]",
    args: argparse.Namespace,
    made: "list[Stage]",
    *,
    printed: Callable[[Any], str] = str,
) -> None:
    """Add the stages that passes make of a module to a list, and print what the options ask for.

    Raises:
        UsageError: an option names a pass that does not run.
        GathernestError: a pass rejects the module.
    """
    watch, start = Watch.of(args, passes), time.perf_counter()
    try:
        for stage in stages:
            made.append(stage)
            watch.see(made, passes)
    except (GathernestError, ValueError):
        watch.see_failure(made, passes, printed(module))
        raise
    finally:
        if args.timing:
            sys.stderr.write(time_table(made, time.perf_counter() - start))


def print_module(where: str, text: str) -> None:
    """Print a module to standard error below a line like that of `mlir-opt`."""
    print(f"// -----// IR Dump {where} //----- //\n{text.rstrip()}\n", file=sys.stderr)


def _named(when: str, text: str | None, names: Sequence[str]) -> list[str]:
    asked = [] if text is None else [name.strip() for name in text.split(",")]
    allowed = f"; the pipeline has {', '.join(names) or 'no passes'}"
    for name in asked:
        if not name:
            raise UsageError(f"--print-ir-{when}: the name of a pass is missing in {text!r}{allowed}")
        if name not in names:
            raise UsageError(f"--print-ir-{when}: pass {name!r} does not run{did_you_mean(name, names) or allowed}")
    return asked
