"""`gathernest bench`: time gathernest beside its peers on the suite, after comparing their bytes."""

from .command import EXAMPLES, add_arguments, run

__all__ = ["EXAMPLES", "add_arguments", "run"]
