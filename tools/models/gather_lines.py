"""The gathers and the bags of a model, as commands list them."""

from ...ir.problem import Problem

# What is taken for a size that only a run of the model knows.
ASSUMED_SIZE = 128


def described(problem: Problem) -> str:
    """Return a gather in one line."""
    return f"{problem.name} {problem.table} by {problem.indices}, bounds {problem.bounds}"
