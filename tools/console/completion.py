"""Shell completion of a command line: options, commands, passes and other names, as a script that shtab writes."""

import argparse
import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ...ir.errors import DependencyError, GathernestError
from .terminal import UsageError

SHELLS = ("bash", "zsh", "fish")
FILES, FOLDERS = ("FILE", "MODEL", "input_file", "output_file"), ("DIR",)


class PrintCompletion(argparse.Action):
    """The option `--print-completion=SHELL`: prints the script for a shell, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        print(_script(parser, values, "--print-completion"))
        parser.exit()


class InstallCompletion(argparse.Action):
    """The option `--install-completion[=SHELL]`: puts the script where a shell reads it, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        shell = values or _shell_of_user()
        print("\n".join(install(parser.prog, shell, _script(parser, shell, "--install-completion"))))
        parser.exit()


def _script(parser: argparse.ArgumentParser, shell: str, option: str) -> str:
    """Return what shtab writes for a shell; raises DependencyError where it is not installed."""
    try:
        import shtab  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DependencyError(
            f"{option} writes the script with shtab, which is not installed: pip install 'gathernest[completion]'"
        ) from None
    words = _words()
    for action in _actions(parser):
        if (kind := _completed(action, words, shtab)) is not None:
            action.complete = kind  # type: ignore[attr-defined]  # what shtab reads
    return shtab.complete(parser, shell)


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    said = "complete this command in bash, zsh or fish from the next start on (default: the shell of SHELL)"
    parser.add_argument(
        "--install-completion", action=InstallCompletion, nargs="?", choices=SHELLS, metavar="SHELL", help=said
    )
    said = 'print what completes this command in a shell: eval "$(COMMAND --print-completion=bash)"'
    parser.add_argument("--print-completion", action=PrintCompletion, choices=SHELLS, metavar="SHELL", help=said)


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
    """Return what shtab completes an option with; None where nothing is known."""
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


def _shell_of_user() -> str:
    """Return the shell that SHELL names; raises UsageError for one without completion."""
    name = Path(os.environ.get("SHELL", "")).name
    if name in SHELLS:
        return name
    found = f"SHELL is {os.environ['SHELL']!r}" if name else "SHELL is not set"
    raise UsageError(
        f"{found}, and completion is for {', '.join(SHELLS)}; name one, as in --install-completion={SHELLS[0]}"
    )


def install(program: str, shell: str, script: str) -> list[str]:
    """Write the script of a program, and what makes the shell read it; a second time changes nothing but the script.

    Args:
        program: what is completed, such as `gathernest`.
        shell: bash, zsh or fish.
        script: what shtab wrote.

    Returns:
        A line for each file that was written.

    Raises:
        GathernestError: a file cannot be written.
    """
    place, rc, line = _places(program, shell)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(script, encoding="utf-8")
        done = [f"wrote {place}"]
        if rc is not None:
            before = rc.read_text(encoding="utf-8") if rc.exists() else ""
            if line not in before.splitlines():
                end = "" if before.endswith("\n") or not before else "\n"
                rc.parent.mkdir(parents=True, exist_ok=True)
                with rc.open("a", encoding="utf-8") as file:
                    file.write(f"{end}{line}\n")
                done.append(f"added to {rc}: {line}")
    except OSError as error:
        raise GathernestError(f"{error.filename} cannot be written: {error.strerror}; make it writable") from None
    return [*done, f"{shell} completes {program} from its next start on"]


def _places(program: str, shell: str) -> tuple[Path, Path | None, str]:
    """Return the file of the script, the file that a line is added to, if any, and that line."""
    from platformdirs import user_data_path

    home, scripts = Path.home(), user_data_path("gathernest") / "completion"
    if shell == "fish":
        settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return settings / "fish" / "completions" / f"{program}.fish", None, ""
    if shell == "zsh":
        rc = Path(os.environ.get("ZDOTDIR") or home) / ".zshrc"
        return scripts / f"_{program}", rc, f'fpath=("{scripts}" $fpath); autoload -Uz compinit; compinit'
    place = scripts / f"{program}.bash"
    return place, home / ".bashrc", f'[ -f "{place}" ] && . "{place}"'
