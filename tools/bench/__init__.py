"""`gathernest bench`: the suite, timed against the peers after their bytes are compared."""

from .command import EXAMPLES, add_arguments, run

__all__ = ["EXAMPLES", "add_arguments", "run"]
