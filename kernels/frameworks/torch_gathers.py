"""The functions of `gathernest.torch` on tensors, by the names and with the arguments of torch's own."""

from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.overrides import handle_torch_function  # pyright: ignore[reportMissingImports]

from ...ir.errors import InvalidGatherError
from ...ir.operator_spec import GatherElements
from ..interchange.libraries import count_change
from .torch_operators import GATHER, SELECT, SPARSE_GATHER, TAKE_ALONG, Operator
from .torch_tensors import (
    array_of,
    check_index,
    check_tensor,
    checked_dim,
    for_torch,
    is_overridden,
    is_traced,
    must_see,
)


def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the slices of `input` along `dim` that `index` names, as `torch.index_select` does.

    Args:
        input: a dense CPU tensor of any dtype and any strides; read in place.
        dim: in [-rank, rank-1].
        index: integers of any width in [0, size of dim - 1], of rank 1 or 0.
        out: a tensor of input's dtype for the result: of its shape, or without elements, which is resized.

    Returns:
        `out`, or a new contiguous tensor. Where `input` wants a gradient, slices are added in the order of `index`, so
        that its bytes are the same for any number of threads; narrow floats are added in float32 and rounded once.

    Raises:
        BoundsError: an index is outside; a negative one is, too, as in torch.
        IndexTypeError: `index` has no integers.
        InvalidGatherError: an argument is no dense CPU tensor, or the shapes do not fit.
    """
    place = _from_zero(dim, input) if type(dim) is int and dim < 0 else dim
    found = SELECT.found(out, input, index, place, 0, (place,))
    if found is not None:
        return found
    if is_overridden(input, index, out):
        return handle_torch_function(index_select, (input, index, out), input, dim, index, out=out)
    dim = _checked("index_select", input, dim, index, "index")
    if index.dim() > 1:
        raise InvalidGatherError(
            f"index must have rank 1 or 0, got shape {tuple(index.shape)}; gathernest.torch.embedding takes any shape, "
            "and gathernest.torch.gather an index for each element"
        )
    picks = index if index.dim() == 1 else index.reshape(1)
    if input.dim() == 0:
        if picks.shape[0] != 1:
            raise InvalidGatherError(f"index must have one element for a scalar input, got {picks.shape[0]}")
        return _run(SELECT, "index_select", input.reshape(1), 0, picks, (), out)
    shape = (*input.shape[:dim], picks.shape[0], *input.shape[dim + 1 :])
    return _run(SELECT, "index_select", input, dim, picks, shape, out)


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None) -> Tensor:
    """Return elements of `input`, each by an index of its own along `dim`, as `torch.gather` does.

    Args:
        input, dim, out: as for `index_select`.
        index: integers of any width in [0, size of dim - 1], of input's rank and no larger than it off `dim`.
        sparse_grad: give `input` a sparse gradient: the elements as they are, made by torch itself.

    Returns:
        `out`, or a new contiguous tensor of the shape of `index`, with a gradient as that of `index_select`.

    Raises:
        BoundsError: an index is outside; a negative one is, too, as in torch.
        IndexTypeError: `index` has no integers.
        InvalidGatherError: an argument is no dense CPU tensor, or the shapes do not fit.
    """
    operator = SPARSE_GATHER if sparse_grad else GATHER
    place = _from_zero(dim, input) if type(dim) is int and dim < 0 else dim
    found = operator.found(out, input, index, GatherElements, place, (place,))
    if found is not None:
        return found
    if is_overridden(input, index, out):
        given = {"sparse_grad": sparse_grad, "out": out}
        return handle_torch_function(gather, (input, index, out), input, dim, index, **given)
    dim = _checked("gather", input, dim, index, "index")
    if sparse_grad and not input.dim() and out is None:  # a sparse gradient cannot be reshaped
        return torch.gather(input, dim, for_torch(index), sparse_grad=True)
    return _gathered(operator, "gather", input, dim, index, out)


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return elements of `input`, each by an index of its own along `dim`, as `torch.take_along_dim` does.

    Args:
        input, out: as for `index_select`.
        indices: integers of any width in [-size of dim, size of dim - 1], of input's rank; both are broadcast against
            each other off `dim`, without a copy.
        dim: in [-rank, rank-1]; None takes from the flattened input by the flattened indices.

    Returns:
        `out`, or a new contiguous tensor of the broadcast shape, with a gradient as that of `index_select`.

    Raises:
        BoundsError: an index is outside.
        IndexTypeError: `indices` has no integers.
        InvalidGatherError: an argument is no dense CPU tensor, or the shapes do not fit.
    """
    if dim is not None:
        place = _from_zero(dim, input) if type(dim) is int and dim < 0 else dim
        if _fits(input, indices, place):
            found = TAKE_ALONG.found(out, input, indices, GatherElements, place, (place,))
            if found is not None:
                return found
    if is_overridden(input, indices, out):
        return handle_torch_function(take_along_dim, (input, indices, out), input, indices, dim, out=out)
    position = _checked("take_along_dim", input, 0 if dim is None else dim, indices, "indices")
    if dim is None:
        return _gathered(TAKE_ALONG, "take_along_dim", input.reshape(-1), 0, indices.reshape(-1), out)
    if input.dim() != indices.dim():
        raise InvalidGatherError(
            f"input and indices must have the same rank, got {input.dim()} and {indices.dim()}; see Tensor.unsqueeze"
        )
    if input.dim():
        input, indices = _broadcast(input, indices, position)
    return _gathered(TAKE_ALONG, "take_along_dim", input, position, indices, out)


def _from_zero(dim: Any, input: Any) -> Any:
    """Return a negative dimension as the one from 0 that remembered calls have."""
    return dim + input.ndim if isinstance(input, Tensor) else dim


def _fits(input: Any, indices: Any, dim: Any) -> bool:
    """Return whether two tensors have the same sizes off a dimension."""
    try:
        sizes, others = input.shape, indices.shape
        return len(sizes) == len(others) and sizes[:dim] == others[:dim] and sizes[dim + 1 :] == others[dim + 1 :]
    except (AttributeError, RuntimeError, TypeError):  # nested tensors have no shape
        return False


def _broadcast(input: Any, indices: Any, dim: int) -> tuple[Any, Any]:
    """Return both with equal sizes off `dim`, as views; raises InvalidGatherError where they do not fit."""
    sizes = [tuple(tensor.shape) for tensor in (input, indices)]
    off = [(*shape[:dim], 1, *shape[dim + 1 :]) for shape in sizes]
    if off[0] == off[1]:
        return input, indices
    try:
        joint = torch.broadcast_shapes(*off)
    except RuntimeError:
        raise InvalidGatherError(
            f"input and indices must fit each other off dim {dim}, got shapes {sizes[0]} and {sizes[1]}"
        ) from None
    shapes = [(*joint[:dim], shape[dim], *joint[dim + 1 :]) for shape in sizes]
    return input.expand(shapes[0]), indices.expand(shapes[1])


def _checked(function: str, input: Any, dim: Any, index: Any, name: str) -> int:
    """Check the arguments of a function and return `dim` in [0, rank); while a call is traced, its fake kernel does."""
    if not is_traced():
        check_tensor(input, "input", function)
        check_index(index, name, function)
    return checked_dim(dim, input.dim())


def _gathered(operator: Operator, function: str, input: Any, dim: int, index: Any, out: Any) -> Any:
    """Gather elements; scalars count as tensors of one element, and no indices have any rank."""
    shape = tuple(index.shape)
    table, picks = (tensor.reshape(1) if tensor.dim() == 0 else tensor for tensor in (input, index))
    if table.dim() != picks.dim():
        if index.numel():
            raise InvalidGatherError(
                f"input and index must have the same rank, got {input.dim()} and {index.dim()}; "
                "gathernest.torch.index_select takes whole slices"
            )
        picks = picks.new_empty((0,) * table.dim())
    for place, (size, wanted) in enumerate(zip(table.shape, picks.shape, strict=True)):
        if place != dim and wanted > size and index.numel():
            raise InvalidGatherError(
                f"index must not be larger than input off dim {dim}, got input of shape {tuple(input.shape)} and index "
                f"of shape {shape}"
            )
    return _run(operator, function, table, dim, picks, shape, out)


def _run(operator: Operator, function: str, table: Any, dim: int, picks: Any, shape: tuple[int, ...], out: Any) -> Any:
    """Run an operator and return its result in a shape; in `out`, and in place, where nothing traces the call."""
    if out is None:
        result = operator(table, dim, picks)
        return result if tuple(result.shape) == shape else result.reshape(shape)
    if not is_traced():
        check_tensor(out, "out", function)
    if torch.is_grad_enabled() and (table.requires_grad or out.requires_grad):
        raise InvalidGatherError(
            "out cannot be used where a gradient is wanted, as in torch; leave it away, or call within torch.no_grad()"
        )
    if out.dtype != table.dtype:
        raise InvalidGatherError(f"out must have dtype {table.dtype} as input has, got {out.dtype}")
    if tuple(out.shape) != shape:
        if out.numel():
            raise InvalidGatherError(f"out must have shape {shape}, or no elements, got shape {tuple(out.shape)}")
        out.resize_(shape)
    if must_see(table, picks, out) or out.is_neg() or out.is_conj():  # the memory of the latter two has other values
        return out.copy_(operator(table, dim, picks).reshape(shape))
    operator.kernel(table, dim, picks, array_of(out.reshape(1) if not shape else out))
    count_change(out)
    return out
