"""Where each shell looks for completion: the script of a program goes there, and a line into the file of the shell."""

import os
from pathlib import Path

from platformdirs import user_data_path

from ...ir.errors import GathernestError
from .terminal import UsageError


def shell_of_user(allowed: tuple[str, ...]) -> str:
    """Return the name of the user's shell, by SHELL; raises UsageError where that is none of those allowed."""
    name = Path(os.environ.get("SHELL", "")).name
    if name in allowed:
        return name
    found = f"SHELL is {os.environ['SHELL']!r}" if name else "SHELL is not set"
    raise UsageError(
        f"{found}, and completion is for {', '.join(allowed)}; name one, as in --install-completion={allowed[0]}"
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
    home, scripts = Path.home(), user_data_path("gathernest") / "completion"
    if shell == "fish":
        settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return settings / "fish" / "completions" / f"{program}.fish", None, ""
    if shell == "zsh":
        rc = Path(os.environ.get("ZDOTDIR") or home) / ".zshrc"
        return scripts / f"_{program}", rc, f'fpath=("{scripts}" $fpath); autoload -Uz compinit; compinit'
    place = scripts / f"{program}.bash"
    return place, home / ".bashrc", f'[ -f "{place}" ] && . "{place}"'
