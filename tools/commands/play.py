"""`gathernest play`: change a gather, its schedule or a stage in a browser, and see nest, bytes, assembly and time."""

import argparse

from ...kernels.reduction.operands import REDUCTIONS, WEIGHTED_REDUCTIONS
from ..console.problem_options import add_problem_options, given_options, problem_arguments
from ..console.terminal import DONE, Parser, UsageError, add_option, integer, make_console

EXAMPLES = """examples:
  gathernest play
  gathernest play --data 1000x64xf32 --indices 100xi64 --bounds clip
  gathernest play --port 8000 --no-browser

The link that is printed has a token; the page answers nobody who has not opened it."""

LARGEST_PORT = 65535
BAGS = {*REDUCTIONS, *WEIGHTED_REDUCTIONS}


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_problem_options(parser)
    add_option(parser, "--port N", "of this machine (default: 2718, or a free one)", type=integer)
    add_option(parser, "--no-browser", "print the link, and open no browser")


def run(options: argparse.Namespace) -> int:
    """Serve the playground until Ctrl-C."""
    from ...playground.play.server import require_marimo, serve
    from ...playground.play.settings import Settings

    require_marimo()
    if options.port is not None and not 0 < options.port <= LARGEST_PORT:
        raise UsageError(f"--port: expected a whole number from 1 to {LARGEST_PORT}, got {options.port}")
    query: dict[str, str] = {}
    if given_options(options):
        arguments = problem_arguments(options)
        if arguments["operator"] in BAGS:
            raise UsageError(
                f"the steps of the playground are of gathers and gradients, got {options.operator}; gathernest show "
                f"--operator {options.operator} prints the stages of bags"
            )
        query = Settings(**arguments).to_query()
    console = make_console()
    said = "The playground is at {}\nIt answers who has this link. Ctrl-C ends it."
    serve(
        options.port,
        query,
        opens_browser=not options.no_browser,
        say=lambda address: console.print(said.format(address)),
    )
    return DONE
