"""`embedding` and `Embedding` of `gathernest.torch`: as torch has them, with gathernest's look-ups and gradients."""

from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.overrides import handle_torch_function  # pyright: ignore[reportMissingImports]

from ...ir.errors import BoundsError, InvalidGatherError
from ...ir.operator_spec import Gather
from ...ir.semantics import integer_argument
from ..gather import gather
from .torch_fast_call import OwnGradient, finders
from .torch_few_bags import NARROW
from .torch_operators import MOST_OWN_SLICES, SELECT, Operator, added_up, save
from .torch_tensors import (
    OF_TORCH,
    array_of,
    check_index,
    check_tensor,
    for_torch,
    is_overridden,
    is_traced,
    outside,
    tensor_of,
    unsigned,
)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return rows of an embedding table, as `torch.nn.functional.embedding` does.

    Args:
        input: integers of any width and any shape in [0, rows - 1].
        weight: (rows, columns), a dense CPU tensor of any dtype and any strides; read in place.
        padding_idx: a row that gets no gradient, in [-rows, rows-1].
        max_norm: rows that are looked up are first scaled down to this norm, in place, by torch itself.
        norm_type: the p of that norm.
        scale_grad_by_freq: divide the gradient of a row by the number of its look-ups.
        sparse: give `weight` a sparse gradient: the slices as they are, made by torch itself.

    Returns:
        A new contiguous tensor of shape (*input.shape, columns). A dense gradient is added in the order of `input`, so
        that its bytes are the same for any number of threads; narrow floats are added in float32 and rounded once.

    Raises:
        BoundsError: an index is outside; a negative one is, too, as in torch.
        IndexTypeError: `input` has no integers.
        InvalidGatherError: an argument is no dense CPU tensor, `weight` is no matrix, or `padding_idx` is outside.
    """
    if padding_idx is not None:
        padding_idx = integer_argument(padding_idx, "padding_idx")
    is_matrix = isinstance(weight, Tensor) and weight.ndim == 2
    if max_norm is None and is_matrix and not (scale_grad_by_freq and (sparse or weight.requires_grad)):
        rows = weight.shape[0] if padding_idx is not None else 0
        if padding_idx is None or -rows <= padding_idx < rows:
            padding = -1 if padding_idx is None else padding_idx % rows
            if _is_select(input, weight) and padding < 0 and not (scale_grad_by_freq or sparse):
                found = SELECT.found(None, weight, input, 0, 0, (0,))
            else:
                found = EMBEDDING.found(None, weight, input, 0, 0, (padding, scale_grad_by_freq, sparse))
            if found is not None:
                return found
    if is_overridden(input, weight):
        rest = padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
        return handle_torch_function(embedding, (input, weight), input, weight, *rest)
    if not is_traced():
        check_tensor(weight, "weight", "embedding")
        check_index(input, "input", "embedding")
    if weight.dim() != 2:
        raise InvalidGatherError(f"weight must be a matrix (rows, columns), got shape {tuple(weight.shape)}")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise InvalidGatherError(f"padding_idx {padding_idx} is out of range [{-rows}, {rows - 1}] for {rows} rows")
    if scale_grad_by_freq and sparse:
        raise InvalidGatherError("scale_grad_by_freq=True has no sparse gradient, as in torch; pass sparse=False")
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight, for_torch(input).contiguous(), max_norm, norm_type)
    padding = -1 if padding_idx is None else padding_idx % rows
    return EMBEDDING(weight, input, padding, scale_grad_by_freq, sparse)


class Embedding(torch.nn.Embedding):
    """`torch.nn.Embedding` on the CPU by `gathernest.torch.embedding`: the same arguments, weights and `state_dict`.

    `module.__class__ = gathernest.torch.Embedding` turns an embedding that is there already into one of these.
    """

    def forward(self, input: Tensor) -> Tensor:
        return embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )


def _is_select(index: Any, weight: Any) -> bool:
    """Return whether `index_select` adds more of the gradients by torch, which rounds each addition of `embedding`."""
    if weight.dtype not in NARROW or not weight.requires_grad or not isinstance(index, Tensor):
        return False
    return index.ndim == 1 and index.dtype in OF_TORCH


def _embedding(weight: Any, index: Any, padding: int = -1, is_scaled: bool = False, is_sparse: bool = False) -> Any:
    try:
        return tensor_of(gather(array_of(weight), unsigned(index)), weight.dtype)
    except BoundsError:
        raise outside(index, "input", 0, weight.shape[0]) from None


def _dense_backward(grad: Any, index: Any, rows: int, padding: int = -1, is_scaled: bool = False) -> Any:
    sums = added_up(Gather(0), finders().elements, grad, (rows, grad.shape[-1]), index)
    if padding >= 0:
        sums[padding] = 0
    return sums.div_(_look_ups(index, rows)) if is_scaled else sums


def _look_ups(index: Any, rows: int) -> Any:
    """Return how often each row is looked up, as a column; 1 where it is not."""
    picks = for_torch(index).reshape(-1).clone().clamp_(0, rows - 1)  # another thread may write to indices
    return torch.bincount(picks, minlength=rows).clamp_(min=1).unsqueeze(1)


def _backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    (index,) = ctx.saved_tensors
    shape, padding, is_scaled, is_sparse = ctx.kept
    backward = torch.ops.aten.embedding_sparse_backward if is_sparse else DENSE_BACKWARD
    index = for_torch(index) if is_sparse else index
    return backward(grad, index, shape[0], padding, is_scaled), None, None, None, None


def _save_of_backward(ctx: Any, inputs: Any, output: Any) -> None:
    _, index, ctx.rows, ctx.padding, ctx.is_scaled = inputs
    ctx.save_for_backward(index)


def _backward_of_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    (index,) = ctx.saved_tensors
    if ctx.is_scaled:
        grad = grad / _look_ups(index, ctx.rows)
    slices = EMBEDDING(grad, index, ctx.padding, False, False)
    if ctx.padding >= 0:
        slices = slices.masked_fill((index == ctx.padding).unsqueeze(-1), 0)
    return slices, None, None, None, None


EMBEDDING = Operator(
    "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) "
    "-> Tensor",
    _embedding,
    lambda weight, index, *_: weight.new_empty((*index.shape, weight.shape[1])),
    "elements",
    OwnGradient(torch.embedding, 1, MOST_OWN_SLICES),
)
DENSE_BACKWARD = Operator(
    "embedding_dense_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt padding_idx=-1, "
    "bool scale_grad_by_freq=False) -> Tensor",
    _dense_backward,
    lambda grad, index, rows, *_: grad.new_empty((rows, grad.shape[-1])),
)
EMBEDDING.differentiate(
    save, _backward, lambda ctx, tangent, *_: EMBEDDING(tangent, ctx.saved_tensors[0], ctx.kept[1], False, False)
)
DENSE_BACKWARD.differentiate(
    _save_of_backward,
    _backward_of_backward,
    lambda ctx, tangent, *_: DENSE_BACKWARD(tangent, ctx.saved_tensors[0], ctx.rows, ctx.padding, ctx.is_scaled),
)
