"""`gathernest build`: write a shared library with C functions for given problems, and its C header."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.element_types import UnknownSizeError
from ...ir.errors import GathernestError
from ...kernels.host.dependencies import require_compiler
from ...kernels.problems.named_problem import problem_of
from ..console.problem_options import add_problem_options, problem_arguments
from ..console.terminal import DONE, Parser, UsageError, add_option, check_file, make_console, progress

if TYPE_CHECKING:
    from ...kernels.c_functions.declaration import Declaration

EXAMPLES = """examples:
  gathernest build --so liblookup.so --data 1000x64xf32 --indices 100xi64
  gathernest build --so liblookup.so --data 1000x64xf32 --indices 100xi64 --cpu znver3 --header lookup.h
  gathernest build --so liblookup.so --data 1000x64xf32 --indices 100xi64 --name lookup \\
    --and --data 50x64xf32 --indices 100xi32 --name lookup_position
  cc main.c ./liblookup.so"""
IN_ORDER = "in_order"


class _InOrder(argparse.Action):
    """Notes an option of the last problem; --and begins the next problem."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        *before, last = getattr(namespace, IN_ORDER, [{}])
        if self.dest == "and":
            wanted = [*before, last, {}]
        elif self.dest in last:
            raise UsageError(f"{option_string} is given twice for one problem; put --and between two problems")
        else:
            wanted = [*before, last | {self.dest: True if self.nargs == 0 else values}]
        setattr(namespace, IN_ORDER, wanted)


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_option(parser, "--so OUT", "the shared library to write", required=True)
    add_option(parser, "--header OUT", "its C header (default: the name of --so, ending in .h)")
    add_option(
        parser,
        "--cpu NAME",
        "the CPU it is for, by LLVM's name: znver3, x86-64-v3, ...; its schedules are chosen for one like it, or by "
        "GATHERNEST_MACHINE (default: native, this machine's)",
    )
    group = parser.add_argument_group("problems", "one or more, with --and between them")
    add_problem_options(group, action=_InOrder)
    add_option(group, "--name NAME", "the C function (default: made of the problem)", action=_InOrder)
    any_count = "make the first dimension of indices an argument, count; that of --indices is a usual one"
    add_option(group, "--any-count", any_count, action=_InOrder, nargs=0)
    add_option(group, "--and", "begin the next problem", action=_InOrder, nargs=0)
    add_option(parser, "--json")


def run(options: argparse.Namespace) -> int:
    """Build the library."""
    require_compiler()
    from ...kernels.c_functions.library import UnknownCpuError, build_library

    out, header = _files(options)
    functions = _functions(options)
    try:
        with progress("compiling", len(functions)) as advance:
            built = build_library(out, header, functions, options.cpu, advance)
    except UnknownCpuError as error:
        raise UsageError(str(error)) from None
    if options.json:
        said = [
            {"name": each.name, "problem": each.comment.splitlines()[0], "prototype": each.prototype}
            for each in functions
        ]
        print(json.dumps({"library": str(out), "header": str(header), "cpu": built.cpu, "functions": said}))
        return DONE
    console = make_console()
    for each in functions:
        console.print(each.prototype)
    console.print(f"{out} ({out.stat().st_size / 1024:.0f} KiB) and {header}, for {built.cpu}, one thread a call")
    return DONE


def _files(options: argparse.Namespace) -> tuple[Path, Path]:
    """Return the library and its header, after a check that both can be written; raises UsageError."""
    out = check_file("--so", options.so)
    header = check_file("--header", out.with_suffix(".h") if options.header is None else options.header)
    if out.resolve() == header.resolve():
        raise UsageError(f"the library and its header would both be {out}; give --header another")
    return out, header


def _functions(options: argparse.Namespace) -> "Sequence[Declaration]":
    """Return the functions that the options name; raises UsageError."""
    from ...kernels.c_functions.declaration import Declaration

    wanted: Sequence[dict[str, Any]] = getattr(options, IN_ORDER, ())
    if not wanted:
        raise UsageError("no problem is given; name one with --data and --indices, such as 1000x64xf32 and 100xi64")
    functions: dict[str, Declaration] = {}
    for number, each in enumerate(wanted, 1):
        try:
            given = argparse.Namespace(**(vars(options) | each))
            problem = problem_of(**problem_arguments(given))
            function = Declaration.of(problem, each.get("name"), takes_count="any_count" in each)
        except GathernestError as error:
            said = str(error) if len(wanted) == 1 else f"problem {number}: {error}"
            if isinstance(error, UnknownSizeError):
                said += "; only the first size of --indices may be open: give a usual one, and --any-count"
            raise UsageError(said) from None
        if function.name in functions:
            raise UsageError(f"two problems are called {function.name}; leave one out, or give it another --name")
        functions[function.name] = function
    return tuple(functions.values())
