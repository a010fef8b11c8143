"""Arguments that other functions and libraries have, and their names here.

A function that is timed in nanoseconds cannot take any name and look at it: `**others` costs 22 ns. It has parameters
`dim`, `mode` and `keepdim` with defaults, which cost less than a name-only argument.
"""

import inspect
from collections.abc import Callable, Iterable
from typing import TypeVar

from ..ir.errors import InvalidGatherError, did_you_mean

_Function = TypeVar("_Function", bound=Callable[..., object])

_AXIS = "axis=, as NumPy calls it"
_BOUNDS = "bounds=: 'error', 'zero', 'clip', 'wrap', 'unchecked' or gathernest.Fill(value)"
_KEPT = "indices of one more dimension, such as [2] in place of 2: the axis stays with size 1"
_BATCHED = "gathernest.gather, which has batch_dims"
# The advice for a wrong name, by the argument that the function has instead, or "" for any function.
_MEANT = {
    "dim": {
        "axis": _AXIS,
        "reduce": "data with that axis first: numpy.moveaxis(data, dim, 0)",
        "": "tuples of indices, whose last dimension has an index for each leading axis of data",
    },
    "axis": {"": "gathernest.gather, which has axis"},
    "mode": {"reduce": "reduce=: 'sum', 'mean' or 'max'", "bounds": _BOUNDS},
    "bounds": {"mode": "mode=: 'raise', 'wrap', 'clip' or 'fill'"},
    "include_last_offset": {"offsets": "offsets[:-1]: the last bag ends with the indices"},
    "per_sample_weights": {"weights": "weights="},
    "keepdim": {"axis": _KEPT, "": "the result to numpy.expand_dims, which adds a dimension"},
    "batch_dims": {"": _BATCHED},
    "batch_axis": {"": _BATCHED},
    "index": {"": "indices="},
    "input": {"": "the array as the first argument"},
    "data": {"": "the array as the first argument"},
    "sparse_grad": {"": "gathernest.gather_elements_grad for a gradient"},
}


def reject_others(function: Callable[..., object], others: Iterable[str]) -> None:
    """Raise InvalidGatherError for the first of the arguments, which a function does not have; names the right one."""
    for name in others:
        raise _not_an_argument(function, name)


def _not_an_argument(function: Callable[..., object], name: str) -> InvalidGatherError:
    there = list(inspect.signature(function).parameters)
    meant = _MEANT.get("keepdim" if name == "keepdims" else name, {})
    known = next((text for argument, text in meant.items() if argument in ("", *there)), None)
    hint = f"; pass {known}" if known else did_you_mean(name, there)
    return InvalidGatherError(f"{function.__name__} has no argument {name!r}{hint}")


def shown_without_elsewhere(function: _Function) -> _Function:
    """Show a function without `**others`, and without foreign names, which are annotated as None.

    The arguments after the foreign names are shown as passed by name only.
    """
    signature, parameters, by_name = inspect.signature(function), list[inspect.Parameter](), False
    for parameter in signature.parameters.values():
        if parameter.annotation is None:
            by_name = True
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            kind = inspect.Parameter.KEYWORD_ONLY if by_name else parameter.kind
            parameters.append(parameter.replace(kind=kind))
    vars(function)["__signature__"] = signature.replace(parameters=parameters)
    return function


def elsewhere(function: Callable[..., object], **given: object) -> InvalidGatherError:
    """Return the error of a call, with a foreign name, of a function that `shown_without_elsewhere` shows.

    Args:
        function: the function that was called.
        given: the foreign names in their order; names that were not passed are None.
    """
    name = next(name for name, value in given.items() if value is not None)
    error = _not_an_argument(function, name)
    if name != next(iter(given)):
        return error
    parameters = inspect.signature(function).parameters.values()
    first = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
    return InvalidGatherError(f"{error}; only {', '.join(first)} go by position")
