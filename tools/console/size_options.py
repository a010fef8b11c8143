"""The option `--size NAME=N`, by which commands bind sizes of a model that are not known before it runs."""

from collections.abc import Sequence

from .terminal import Parser, UsageError


def add_size_option(parser: Parser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="a size that a model leaves open, for inputs at random; INPUT.AXIS=N where it has no name; repeat",
    )


def parse_sizes(entries: Sequence[str]) -> dict[str, int]:
    """Return sizes by their names, for entries as `batch=4`; raises UsageError for what is none, or given twice."""
    sizes: dict[str, int] = {}
    for entry in entries:
        name, _, text = entry.rpartition("=")
        if not name or not text.isascii() or not text.isdigit() or len(text) > 18:
            raise UsageError(f"--size {entry!r} is not NAME=N, as in --size batch=4 (or, without a name, tokens.0=4)")
        if name in sizes:
            raise UsageError(f"--size {name!r} is given twice")
        sizes[name] = int(text)
    return sizes
