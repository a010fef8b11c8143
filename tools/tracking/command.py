"""The sub-commands of `gathernest bench`: each a module with `EXAMPLES`, `add_arguments(parser)` and `run(options)`.

The first line of a module's docstring is its summary. Heavy imports wait until a command runs.
"""

import argparse

from ..console.terminal import Parser
from .history import command as history
from .paired import calibrate_noise, compare, upgrade

COMMANDS = {"compare": compare, "history": history, "calibrate-noise": calibrate_noise, "upgrade": upgrade}


def add_commands(parser: Parser) -> None:
    """Declare the sub-commands on the parser of `gathernest bench`, which does its own work without one."""
    added = parser.add_subparsers(
        dest="tracking", metavar="COMMAND", title="commands", description="without one, the suite is timed beside peers"
    )
    for name, module in COMMANDS.items():
        summary = (module.__doc__ or "").partition("\n")[0].partition(": ")[2].rstrip(".")
        command = added.add_parser(
            name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.", epilog=module.EXAMPLES
        )
        module.add_arguments(command)


def run_command(options: argparse.Namespace) -> int:
    """Run the sub-command of a parsed command line and return its exit status."""
    return COMMANDS[options.tracking].run(options)
