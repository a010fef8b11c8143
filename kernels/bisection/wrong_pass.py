"""The pass after which a gather is wrong, with the small gather that shows it."""

from dataclasses import dataclass

import numpy as np
from xdsl.passes import ModulePass

from ...ir.modules.exec_comment import header
from ...ir.problem import Problem
from ..playground.check_stage import Difference


@dataclass(frozen=True)
class WrongPass:
    """The first pass after which a gather is wrong, with a small example.

    Attributes:
        name: the pass with its options; `the input` where the module is wrong before any pass.
        difference: what is wrong after it.
        problem: the gather that shows it, shrunk.
        data, indices: its arrays; of a gradient, data is grad.
        passes: the passes up to this one, those left out that it does not take.
        before: the module before it, as text.
    """

    name: str
    difference: Difference
    problem: Problem
    data: np.ndarray
    indices: np.ndarray
    passes: tuple[str, ...]
    before: str

    def __str__(self) -> str:
        problem = self.problem
        return (
            f"{self.name} is wrong: {self.difference}\n"
            f"shown by {problem.name} of {problem.source} by {problem.indices} = {self.indices.tolist()}, "
            f"{problem.options}\nafter the passes {','.join(self.passes) or 'none'}"
        )

    def reproducer(self) -> str:
        """Return the module before the pass, under a comment that makes `gathernest exec` run the pass and compare."""
        step = self.passes[-1] if self.passes else ""
        said = "".join(f"// {line}\n" for line in str(self).splitlines())
        return f"{header(self.problem, self.data, self.indices, step)}{said}{self.before}"


def invalid_module(error: Exception) -> Difference:
    """Return what is wrong with a pass that fails or leaves a module that is not valid."""
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return Difference(f"it fails or leaves an invalid module: {reason}")


def text_of(step: ModulePass) -> str:
    """Return a pass with its options as the text of a pipeline."""
    return str(step).replace('"', "")
