"""`gathernest play`: change a gather, its schedule or a stage in a browser, and see nest, bytes, assembly and time."""

from .command import EXAMPLES, add_arguments, run

__all__ = ["EXAMPLES", "add_arguments", "run"]
