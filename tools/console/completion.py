"""Shell completion of a command line: options, commands, passes and other names, as a script that shtab writes."""

import argparse
import shlex
from collections.abc import Iterable, Iterator
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
            if (kind := _completed(action, words, shtab)) is not None:
                action.complete = kind  # type: ignore[attr-defined]  # an attribute that shtab reads
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


def _words() -> dict[str, tuple[Iterable[str], bool]]:
    """Return the words that options take, by their names, and whether an option takes several with commas between."""
    from ...ir.semantics import Bounds
    from ...kernels.problems.named_problem import OPERATORS
    from ...lowering.registry import NAMES, PIPELINES, all_passes
    from ...playground.stage import ENGINES

    passes = ([*PIPELINES, *all_passes()], True)
    stages = ["operator", *NAMES, "canonicalize", "cse", "pipeline", "source", "llvm", "asm", "all", "list"]
    return {
        "operator": (OPERATORS, False),
        "bounds": ([mode.value for mode in Bounds], False),
        "engine": (ENGINES, False),
        "stage": (stages, False),
        "diff": (stages[:-6], False),
        "target": (("mlir", "numba", "upstream"), False),
        "passes": passes,
        "print_ir_before": passes,
        "print_ir_after": passes,
    }


def _completed(action: argparse.Action, words: dict[str, tuple[Iterable[str], bool]], shtab: Any) -> Any:
    """Return the words of an option for shtab; None where they are not known."""
    if action.nargs == 0:
        return None
    if action.metavar in FILES or action.dest in FILES:
        return shtab.FILE
    if action.metavar in FOLDERS:
        return shtab.DIRECTORY
    if action.dest not in words:
        return None
    allowed, are_several = words[action.dest]
    text, name = " ".join(allowed), f"_gathernest_{action.dest}"
    before = '"${1%"${1##*,}"}"' if are_several else '""'
    return {
        "bash": name,
        "zsh": f"_values -s , {action.dest} {text}" if are_several else f"({text})",
        "fish": f"(__fish_append , {text})" if are_several else text,
        "preamble": {"bash": f'{name}() {{ compgen -P {before} -W {shlex.quote(text)} -- "${{1##*,}}"; }}'},
    }
