"""The command `gathernest-opt`: run passes over MLIR text, as `mlir-opt` does, with errors that a person can read."""

import sys
from collections.abc import Sequence

from ...kernels.host.dependencies import require
from ..console.terminal import DONE, FAILED, UsageError, run_tool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return run_tool("gathernest-opt", lambda: _run(words), shows_traceback="--traceback" in words)


def _run(words: list[str]) -> int:
    require("xdsl")
    from xdsl.utils.exceptions import ArgSpecParseError, ShrinkException

    from .transform import OptMain

    try:
        driver = OptMain(words)
    except ArgSpecParseError as error:  # derives from BaseException
        raise UsageError(f"--target does not parse: {str(error).splitlines()[-1].strip()}") from None
    try:
        driver.run()
    except ShrinkException:
        return DONE
    return FAILED if driver.args.shrink else driver.status


if __name__ == "__main__":
    sys.exit(main())
