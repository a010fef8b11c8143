"""`embedding_bag` and `EmbeddingBag` of `gathernest.torch`: sums and means of rows, without a tensor of the rows."""

from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]
from torch.overrides import handle_torch_function  # pyright: ignore[reportMissingImports]

from ...ir.errors import InvalidGatherError, show
from ...ir.semantics import integer_argument
from .torch_bag_operators import EMBEDDING_BAG, ROWS_OF_LARGEST, SUMMED, found_bags, reduced
from .torch_operators import GATHER
from .torch_tensors import check_index, check_tensor, for_torch, is_overridden, is_traced, must_see

_MODES = ("sum", "mean", "max")


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum or the mean of the rows of each bag, as `torch.nn.functional.embedding_bag` does.

    Gradients with `sparse` and `scale_grad_by_freq` are torch's: such calls are handed to its function where a gradient
    is wanted.

    Args:
        input: integers in [0, rows - 1], (bags, bag) or (indices).
        weight: (rows, columns), a dense CPU tensor of any strides; read in place.
        offsets: (bags), integers: where each bag begins in an input of rank 1.
        max_norm, norm_type: as for `embedding`.
        mode: "sum", "mean" or "max"; of equal largest elements, the first of the bag gets the gradient.
        per_sample_weights: of the shape of input and the dtype of weight: what each row is multiplied by before it is
            added, for "sum"; it has a gradient, too.
        scale_grad_by_freq, sparse: as for torch's function.
        include_last_offset: the last of `offsets` is the end of the last bag.
        padding_idx: a row that is not added, nor counted by a mean, and gets no gradient.

    Returns:
        A new contiguous tensor (bags, columns). Its gradient has the same bytes for any number of threads.

    Raises:
        BoundsError: an index is outside; a negative one is, too, as in torch.
        IndexTypeError: `input` or `offsets` has no integers.
        InvalidGatherError: an argument is no dense CPU tensor, or the shapes do not fit.
    """
    if padding_idx is not None:
        padding_idx = integer_argument(padding_idx, "padding_idx")
    if max_norm is None and mode in _MODES:
        is_ours = not (sparse or scale_grad_by_freq)
        given = per_sample_weights, mode, include_last_offset, padding_idx, is_ours
        found = found_bags(weight, input, offsets, *given)
        if found is not None:
            return found
    norm, rest = (max_norm, norm_type, scale_grad_by_freq), (mode, sparse, per_sample_weights, include_last_offset)
    if is_overridden(input, weight, offsets, per_sample_weights):
        tensors = input, weight, offsets, per_sample_weights
        return handle_torch_function(embedding_bag, tensors, *tensors[:3], *norm, *rest, padding_idx)
    if not is_traced():
        check_tensor(weight, "weight", "embedding_bag")
        check_index(input, "input", "embedding_bag")
        if offsets is not None:
            check_index(offsets, "offsets", "embedding_bag")
    if mode not in _MODES:
        raise InvalidGatherError(f'mode must be "sum", "mean" or "max", got {show(mode)}')
    if weight.dtype not in SUMMED:
        raise InvalidGatherError(
            f"weight must be float16, bfloat16, float32 or float64, got {weight.dtype}; convert it, as by .float()"
        )
    is_empty = input.numel() == weight.shape[0] == 0  # then the gradient has no row either
    is_torchs = (sparse or scale_grad_by_freq) and (is_traced() or _has_gradient(weight, per_sample_weights))
    if is_torchs or is_empty:
        begins = None if offsets is None else for_torch(offsets)
        return functional.embedding_bag(for_torch(input), weight, begins, *norm, *rest, padding_idx)
    has_last = include_last_offset and offsets is not None
    _check_shapes(input, weight, offsets, padding_idx)
    if per_sample_weights is not None:
        _check_factors(per_sample_weights, input, weight, mode)
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight, for_torch(input).contiguous(), max_norm, norm_type)
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    if mode == "max":
        return _largest(weight, input, offsets, has_last, padding)
    return EMBEDDING_BAG(weight, input, offsets, per_sample_weights, mode == "mean", has_last, padding)


class EmbeddingBag(torch.nn.EmbeddingBag):
    """`torch.nn.EmbeddingBag` on the CPU by `gathernest.torch.embedding_bag`: the same arguments and `state_dict`.

    `module.__class__ = gathernest.torch.EmbeddingBag` turns one that is there already into one of these.
    """

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        norm = self.max_norm, self.norm_type
        rest = self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx
        return embedding_bag(input, self.weight, offsets, *norm, self.scale_grad_by_freq, *rest)


def _has_gradient(weight: Any, factors: Any) -> bool:
    tensors = [weight] if factors is None else [weight, factors]
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _check_shapes(input: Any, weight: Any, offsets: Any, padding_idx: int | None) -> None:
    if weight.dim() != 2:
        raise InvalidGatherError(f"weight must be a matrix (rows, columns), got shape {tuple(weight.shape)}")
    if input.dim() == 2 and offsets is not None:
        raise InvalidGatherError("offsets must be None for an input of rank 2, whose rows are the bags")
    if input.dim() == 1 and (offsets is None or offsets.dim() != 1):
        got = "None" if offsets is None else f"shape {tuple(offsets.shape)}"
        raise InvalidGatherError(f"offsets must have rank 1 for an input of rank 1, got {got}; see input.unsqueeze(0)")
    if input.dim() not in (1, 2):
        raise InvalidGatherError(f"input must have rank 1 or 2, got shape {tuple(input.shape)}")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise InvalidGatherError(f"padding_idx {padding_idx} is out of range [{-rows}, {rows - 1}] for {rows} rows")


def _check_factors(factors: Any, input: Any, weight: Any, mode: str) -> None:
    if not is_traced():
        check_tensor(factors, "per_sample_weights", "embedding_bag")
    if mode != "sum":
        raise InvalidGatherError(f'per_sample_weights are for mode="sum", as in torch, got mode={mode!r}')
    if factors.shape != input.shape or factors.dtype != weight.dtype:
        raise InvalidGatherError(
            f"per_sample_weights must have the shape of input and the dtype of weight, {tuple(input.shape)} and "
            f"{weight.dtype}, got {tuple(factors.shape)} and {factors.dtype}"
        )


def _largest(weight: Any, index: Any, offsets: Any, has_last: bool, padding: int) -> Any:
    """Return the largest element of each column of each bag, and 0 of an empty one.

    Where a gradient may be wanted, the rows of the largest elements are found first, and then gathered.
    """
    if not (must_see(weight, index, offsets) or _has_gradient(weight, None)):
        return reduced(weight, index, offsets, "max", has_last, padding)
    rows = ROWS_OF_LARGEST(weight.detach(), index, offsets, has_last, padding)
    is_there = rows < weight.shape[0]
    return torch.where(is_there, GATHER(weight, 0, torch.where(is_there, rows, 0)), 0)
