"""Stages on the terminal: text, loops and differences, and the modules and times of passes that run."""

import argparse
import difflib
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.errors import GathernestError, InvalidGatherError, did_you_mean
from .terminal import UsageError, make_console

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

    from ...lowering.pipeline import Stage

SEPARATOR = "// -----"
_OPERATOR_LEVEL = re.compile(r"\bgather\.gather(_nd|_elements)?\b")
_DIFF_STYLES = {"-": "red", "+": "green", "@": "cyan"}
_RULE = f"==={'-' * 73}===\n"  # 79 columns, as in MLIR


# ---- text ----


def draw(stage: "Stage") -> str | None:
    """Return the loops of a stage as pseudocode; None where it has no loops yet."""
    from ...ir.modules.context import parse_module
    from ...ir.modules.pseudocode import print_loop_nest

    return None if _OPERATOR_LEVEL.search(stage.text) else print_loop_nest(parse_module(stage.text))


def join_stages(stages: Iterable["Stage"], *, pictures: bool = False) -> str:
    """Return stages as one text, which `gathernest-opt --split-input-file` reads.

    A comment before each stage names its pass; a pass that changed nothing has only the comment. With `pictures`, loops
    are drawn, and stages without loops are left out.
    """
    lines: list[str] = []
    before = None
    for stage in stages:
        text = draw(stage) if pictures else stage.text
        if text is None:
            continue
        if before is None:
            lines.append(f"// {stage.name}: {stage.op_count} operations\n{text}")
        elif text == before:
            lines.append(f"// after {stage.name}: nothing changed ({stage.milliseconds:.2f} ms)\n")
        else:
            count = f"{stage.op_count} operations ({stage.milliseconds:.2f} ms)"
            lines.append(f"\n{SEPARATOR}\n// after {stage.name}: {count}\n{text}")
        before = text
    return "".join(lines)


def diff_ends(asked: str, stages: Sequence[str]) -> tuple[str, str]:
    """Return the two stages that `PASS` or `A..B` names: the stages around a pass, or A and B.

    An end that is left out is the first stage, or the last. Whether the names are stages is not checked.

    Raises:
        InvalidGatherError: the pass is the first stage.
    """
    first, dots, second = asked.partition("..")
    if dots:
        return first or stages[0], second or stages[-1]
    if asked == stages[0]:
        raise InvalidGatherError(f"nothing is before {asked}, the first stage; name a pass, or two stages as A..B")
    return stages[stages.index(asked) - 1] if asked in stages else asked, asked


def unified_diff(before: str, after: str, names: tuple[str, str]) -> str:
    """Return the unified diff of two texts; empty where they are equal."""
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    return "".join(difflib.unified_diff(old, new, *names))


def print_diff(text: str) -> None:
    """Print a unified diff to standard output, in colours on a terminal."""
    console = make_console()
    for line in text.splitlines():
        is_head = re.match(r"(---|\+\+\+) ", line) is not None
        console.print(line, style="bold" if is_head else _DIFF_STYLES.get(line[:1], ""))


# ---- passes that run ----


def add_watch_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that `run_watched` reads."""
    for when in ("before", "after"):
        where = f"print the module {when}"
        parser.add_argument(f"--print-ir-{when}", metavar="PASS,..", help=f"{where} these passes, to standard error")
        parser.add_argument(f"--print-ir-{when}-all", action="store_true", help=f"{where} every pass")
    parser.add_argument(
        "--print-ir-after-change", action="store_true", help="print it after each pass, or those named, that changed it"
    )
    parser.add_argument("--print-ir-after-failure", action="store_true", help="print it after a pass that fails")
    parser.add_argument("--timing", action="store_true", help="print how long each pass took, to standard error")


def with_all(words: Sequence[str]) -> list[str]:
    """Return command line words with `--print-ir-after` as `--print-ir-after-all`, where no names of passes follow."""
    following = [re.fullmatch(r"([a-z][a-z0-9,-]*)?", word) for word in words[1:]]  # `watched_passes` rejects ""
    return [
        f"{word}-all" if word in ("--print-ir-before", "--print-ir-after") and names is None else word
        for word, names in zip(words, [*following, None], strict=False)
    ]


def watched_passes(args: argparse.Namespace, passes: "Sequence[ModulePass]") -> tuple[list[str], list[str]]:
    """Return the passes before and after which to print the module; raises UsageError for one that does not run."""
    names = list(dict.fromkeys(step.name for step in passes))
    before = names if args.print_ir_before_all else _named_passes("before", args.print_ir_before, names)
    every = args.print_ir_after_all or (args.print_ir_after_change and args.print_ir_after is None)
    return before, names if every else _named_passes("after", args.print_ir_after, names)


def _named_passes(when: str, text: str | None, names: Sequence[str]) -> list[str]:
    asked = [] if text is None else [name.strip() for name in text.split(",")]
    allowed = f"; the pipeline has {', '.join(names) or 'no passes'}"
    for name in asked:
        if not name:
            raise UsageError(f"--print-ir-{when}: the name of a pass is missing in {text!r}{allowed}")
        if name not in names:
            raise UsageError(f"--print-ir-{when}: pass {name!r} does not run{did_you_mean(name, names) or allowed}")
    return asked


def run_watched(
    stages: "Iterable[Stage]",
    module: Any,
    passes: "Sequence[ModulePass]",
    args: argparse.Namespace,
    made: "list[Stage]",
    *,
    printed: Callable[[Any], str] = str,
) -> None:
    """Add the stages that passes make of a module to a list, and print modules and times as the options say.

    Raises:
        UsageError: an option names a pass that does not run.
        GathernestError: a pass rejects the module.
    """
    (before, after), start = watched_passes(args, passes), time.perf_counter()
    try:
        for stage in stages:
            number = len(made)
            is_changed = number == 0 or stage.text != made[-1].text
            made.append(stage)
            if number and stage.pass_name in after and (is_changed or not args.print_ir_after_change):
                _print_module(f"After {stage.pass_name}", stage.text)
            if number < len(passes) and passes[number].name in before:
                _print_module(f"Before {passes[number].name}", stage.text)
    except (GathernestError, ValueError):
        if args.print_ir_after_failure and 0 < len(made) <= len(passes):
            _print_module(f"After {passes[len(made) - 1].name} Failed", printed(module))
        raise
    finally:
        if args.timing:
            sys.stderr.write(_time_table(made, time.perf_counter() - start))


def _print_module(where: str, text: str) -> None:
    print(f"// -----// IR Dump {where} //----- //\n{text.rstrip()}\n", file=sys.stderr)


def _time_table(stages: Sequence["Stage"], total_seconds: float) -> str:
    """Return the table of `mlir-opt --mlir-timing`: a row for each pass, for the rest and for the whole."""
    rows = [(stage.name, stage.milliseconds / 1e3) for stage in stages[1:]]
    rows += [("Rest", total_seconds - sum(seconds for _, seconds in rows)), ("Total", total_seconds)]
    body = "".join(f"  {seconds:8.4f} ({seconds / total_seconds:6.1%})  {name}\n" for name, seconds in rows)
    title = f"{'... Execution time report ...':^79}".rstrip()
    return (
        f"{_RULE}{title}\n{_RULE}  Total Execution Time: {total_seconds:.4f} seconds\n\n"
        f"  ----Wall Time----  ----Name----\n{body}"
    )
