"""The commands `gathernest`, which is also `python -m gathernest`, and `gathernest-opt`.

Ctrl-C while a command is still being imported ends it in the same words as later.
"""

import sys
from importlib import import_module


def main() -> int:
    """Run the command line `gathernest` and return its exit status."""
    return _run("gathernest", ".tools.cli")


def opt() -> int:
    """Run the command line `gathernest-opt` and return its exit status."""
    return _run("gathernest-opt", ".tools.opt")


def _run(name: str, module: str) -> int:
    try:
        command = import_module(module, __package__)
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    return command.main()


if __name__ == "__main__":
    sys.exit(main())
