"""`embedding_bag` and `EmbeddingBag` of `gathernest.torch`: sums and means of rows, without a tensor of the rows."""

from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from ...ir.errors import BoundsError, InvalidGatherError
from ..reduction.gather_reduce import gather_reduce
from ..reduction.reduce_gradients import gather_reduce_grad
from .torch_operators import Operator
from .torch_tensors import array_of, check_index, check_tensor, is_traced, is_transformed, outside, tensor_of, unsigned

_SUMMED = {torch.bfloat16, torch.float32, torch.float64}
_READ = {torch.float16, *_SUMMED}
_OWN_MODES = ("sum", "mean")


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

    Sums and means of float32, float64 and bfloat16 with dense gradients are gathernest's. So are float16, `mode="max"`
    and `per_sample_weights` where no gradient is wanted and nothing is traced; the rest is handed to torch's function.

    Args:
        input: integers in [0, rows - 1], (bags, bag) or (indices).
        weight: (rows, columns), a dense CPU tensor of any strides; read in place.
        offsets: (bags), integers: where each bag begins in an input of rank 1.
        max_norm, norm_type: as for `embedding`.
        scale_grad_by_freq, mode, sparse, per_sample_weights: as for torch's function.
        include_last_offset: the last of `offsets` is the end of the last bag.
        padding_idx: a row that is not added, nor counted by a mean, and gets no gradient.

    Returns:
        A new contiguous tensor (bags, columns). Its gradient has the same bytes for any number of threads.

    Raises:
        BoundsError: an index is outside; a negative one is, too, as in torch.
        IndexTypeError: `input` or `offsets` has no integers.
        InvalidGatherError: an argument is no dense CPU tensor, or the shapes do not fit.
    """
    if not is_traced():
        check_tensor(weight, "weight", "embedding_bag")
        check_index(input, "input", "embedding_bag")
        if offsets is not None:
            check_index(offsets, "offsets", "embedding_bag")
    is_plain = per_sample_weights is None and not sparse and not scale_grad_by_freq
    is_own = mode in _OWN_MODES and is_plain and weight.dtype in _SUMMED
    is_read_only = not is_own and _is_read_only(input, weight, mode, per_sample_weights)
    if not (is_own or is_read_only):
        rest = scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx
        return functional.embedding_bag(input, weight, offsets, max_norm, norm_type, *rest)
    _check_shapes(input, weight, offsets, padding_idx)
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight, input.contiguous(), max_norm, norm_type)
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    if is_read_only:
        bags = input, offsets, mode, include_last_offset and offsets is not None, padding
        return _reduced(weight, *bags, per_sample_weights)
    return EMBEDDING_BAG(weight, input, offsets, mode == "mean", include_last_offset and offsets is not None, padding)


class EmbeddingBag(torch.nn.EmbeddingBag):
    """`torch.nn.EmbeddingBag` on the CPU by `gathernest.torch.embedding_bag`: the same arguments and `state_dict`.

    `module.__class__ = gathernest.torch.EmbeddingBag` turns one that is there already into one of these.
    """

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        norm = self.max_norm, self.norm_type
        rest = self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx
        return embedding_bag(input, self.weight, offsets, *norm, self.scale_grad_by_freq, *rest)


def _is_read_only(input: Any, weight: Any, mode: str, factors: Any) -> bool:
    """Return whether a call wants no gradient, nobody watches it, and gathernest has its mode and its weights."""
    if is_traced() or is_transformed() or weight.dtype not in _READ or mode not in (*_OWN_MODES, "max"):
        return False
    tensors = [weight] if factors is None else [weight, factors]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return False
    return factors is None or (mode == "sum" and factors.dtype == weight.dtype and factors.shape == input.shape)


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


def _bags(index: Any, offsets: Any, mode: str, has_last: bool, padding: int) -> tuple[Any, dict[str, Any]]:
    """Return the indices and the options of a reduction as gathernest's own functions take them."""
    picks, begins = unsigned(index), None if offsets is None else array_of(offsets)
    if has_last and begins is not None:
        picks, begins = picks[: int(begins[-1])], begins[:-1]
    padding_index = None if padding < 0 else padding
    return picks, {"offsets": begins, "reduce": mode, "padding_index": padding_index}


def _reduced(
    weight: Any, index: Any, offsets: Any, mode: str, has_last: bool, padding: int, factors: Any = None
) -> Any:
    picks, options = _bags(index, offsets, mode, has_last, padding)
    if factors is not None:
        options["weights"] = array_of(factors)[: len(picks)]
    try:
        return tensor_of(gather_reduce(array_of(weight), picks, **options), weight.dtype)
    except BoundsError:
        raise outside(index, "input", 0, weight.shape[0]) from None


def _embedding_bag(
    weight: Any, index: Any, offsets: Any, is_mean: bool, has_last: bool = False, padding: int = -1
) -> Any:
    return _reduced(weight, index, offsets, "mean" if is_mean else "sum", has_last, padding)


def _backward(
    grad: Any, index: Any, offsets: Any, rows: int, is_mean: bool, has_last: bool = False, padding: int = -1
) -> Any:
    picks, options = _bags(index, offsets, "mean" if is_mean else "sum", has_last, padding)
    return tensor_of(gather_reduce_grad(array_of(grad), picks, (rows, grad.shape[-1]), **options), grad.dtype)


def _bags_like(weight: Any, index: Any, offsets: Any, is_mean: bool, has_last: bool = False, padding: int = -1) -> Any:
    return weight.new_empty((index.shape[0] if offsets is None else offsets.shape[0] - has_last, weight.shape[1]))


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    weight, index, offsets, *ctx.options = inputs
    ctx.rows = weight.shape[0]
    ctx.save_for_backward(index, offsets)
    ctx.save_for_forward(index, offsets)


def _save_of_backward(ctx: Any, inputs: Any, output: Any) -> None:
    _, index, offsets, ctx.rows, *ctx.options = inputs
    ctx.save_for_backward(index, offsets)
    ctx.save_for_forward(index, offsets)


def _summed(ctx: Any, weight: Any) -> Any:
    return EMBEDDING_BAG(weight, *ctx.saved_tensors, *ctx.options)


def _spread(ctx: Any, grad: Any) -> Any:
    return BAG_BACKWARD(grad, *ctx.saved_tensors, ctx.rows, *ctx.options)


EMBEDDING_BAG = Operator(
    "embedding_bag(Tensor weight, Tensor indices, Tensor? offsets, bool is_mean, bool include_last_offset=False, "
    "SymInt padding_idx=-1) -> Tensor",
    _embedding_bag,
    _bags_like,
)
BAG_BACKWARD = Operator(
    "embedding_bag_backward(Tensor grad, Tensor indices, Tensor? offsets, SymInt num_weights, bool is_mean, "
    "bool include_last_offset=False, SymInt padding_idx=-1) -> Tensor",
    _backward,
    lambda grad, index, offsets, rows, *_: grad.new_empty((rows, grad.shape[-1])),
)
EMBEDDING_BAG.differentiate(
    _save, lambda ctx, grad: (_spread(ctx, grad), *[None] * 5), lambda ctx, tangent, *_: _summed(ctx, tangent)
)
BAG_BACKWARD.differentiate(
    _save_of_backward,
    lambda ctx, grad: (_summed(ctx, grad), *[None] * 6),
    lambda ctx, tangent, *_: _spread(ctx, tangent),
)
