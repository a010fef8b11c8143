"""Shell completion of a command line: options, commands, passes and other names, as a script that shtab writes."""

import argparse
from collections.abc import Iterator
from typing import Any

from ...ir.errors import DependencyError
from .terminal import add_option

SHELLS = ("bash", "zsh", "fish")
FILES, FOLDERS = ("FILE", "MODEL", "input_file", "output_file"), ("DIR",)


class PrintCompletion(argparse.Action):
    """The option `--print-completion=SHELL`: prints the script of shtab for a shell, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        try:
            import shtab  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise DependencyError(
                "--print-completion writes the script with shtab, which is not installed: "
                "pip install 'gathernest[completion]'"
            ) from None
        words = _words()
        for action in _actions(parser):
            if action.metavar in FILES or action.dest in FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # an attribute that shtab reads
            elif action.metavar in FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif action.dest in words and action.nargs != 0:
                action.choices = words[action.dest]
        print(shtab.complete(parser, values))
        parser.exit()


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    text = 'print the completion script for a shell: eval "$(COMMAND --print-completion=bash)"'
    add_option(parser, "--print-completion SHELL", text, action=PrintCompletion, choices=SHELLS)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)


def _words() -> dict[str, list[str]]:
    """Return the words that options take, by their names; of several with commas between, the first."""
    from ...ir.semantics import Bounds
    from ...kernels.problems.named_problem import OPERATORS
    from ...lowering.registry import NAMES, PIPELINES, all_passes
    from ...playground.stage import ENGINES

    stages = ["operator", *NAMES, "canonicalize", "cse", "pipeline", "source", "llvm", "asm", "all", "list"]
    return {
        "operator": list(OPERATORS),
        "bounds": [mode.value for mode in Bounds],
        "engine": list(ENGINES),
        "stage": stages,
        "diff": stages[:-6],
        "target": ["mlir", "numba", "upstream"],
        "passes": [*PIPELINES, *all_passes()],
    }
