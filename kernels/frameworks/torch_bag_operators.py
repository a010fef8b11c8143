"""The operators of `embedding_bag`: sums of bags, their two gradients, and the rows of the largest elements.

`sum over n of factors[n] * weight[indices[n]] * grad[bag of n]` is linear in each of the three tensors. The sums of
bags are its derivative by grad, and the gradients those by weight and by factors: so the gradient of one is the others.
"""

import functools
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from ...ir.errors import BoundsError
from ...ir.operator_spec import Gather, GatherReduce
from ...ir.semantics import Bounds
from ..host.runtime import RUNTIME
from ..reduction.bags import LARGEST, MEAN, MOST_PLACES_AN_INDEX, OPERATOR, WEIGHTED, make_bags, read_ends
from ..reduction.gather_reduce import gather_reduce
from ..reduction.largest import rows_of_largest, rows_of_largest_in
from ..reduction.operands import Reduction
from ..reduction.reduce_gradients import gather_reduce_grad, gather_reduce_weights_grad
from ..runtime.call_cache import CALLS
from ..runtime.dispatch import Request, keys_of_gather, run
from .torch_fast_call import finders
from .torch_operators import Operator, added_up
from .torch_tensors import (
    array_of,
    has_function_mode,
    is_grad_enabled,
    is_traced,
    is_transformed,
    outside,
    tensor_of,
    unsigned,
)

# Added in their own dtype, by calls that are remembered.
_WIDE = (torch.float32, torch.float64)
_OPERATORS = {"sum": OPERATOR, "mean": MEAN, "max": LARGEST}
# Those of calls by rows of positions. To make them takes 1 us.
_KEYS = {operator: keys_of_gather(operator, Bounds.ZERO) for operator in (*_OPERATORS.values(), WEIGHTED)}
# Indices of a call that is small: those of more are as fast by NumPy.
_FEW = 4096


def reduced(
    weight: Any, index: Any, offsets: Any, mode: Reduction, has_last: bool, padding: int, factors: Any = None
) -> Any:
    """Return the sums, the means or the largest elements of bags of dense tensors; raises BoundsError."""
    operator = _OPERATORS[mode]
    try:
        if factors is None and weight.dtype in _WIDE:
            rows = _rows(index, offsets, has_last, weight.shape[0], padding, mode == "max")
            if rows is not None:
                return _reduced_rows(operator, weight, rows)
        if factors is not None and weight.dtype is torch.float32:
            rows = _weighted_rows(index, offsets, has_last, weight.shape[0], padding, array_of(factors))
            if rows is not None:
                return _reduced_rows(WEIGHTED, weight, rows)
        if factors is None and mode != "max":
            index, offsets = _as_rows(index, offsets, has_last)
        if offsets is None and factors is None and padding < 0 and weight.dtype in _WIDE:
            keys = keys_of_gather(operator, Bounds.ERROR)
            found = finders().elements.run(CALLS.find, weight, index, None, *keys)
            if found is not None:
                return found
        picks, options = _bags(index, offsets, has_last, padding, factors)
        return tensor_of(gather_reduce(array_of(weight), picks, reduce=mode, **options), weight.dtype)
    except BoundsError:
        raise outside(index, "input", 0, weight.shape[0]) from None


def _bags(index: Any, offsets: Any, has_last: bool, padding: int, factors: Any = None) -> tuple[Any, dict[str, Any]]:
    """Return the indices and the options of a reduction as gathernest's own functions take them."""
    picks, begins = unsigned(index), None if offsets is None else array_of(offsets)
    if has_last and begins is not None:
        picks, begins = picks[: int(begins[-1])], begins[:-1]
    options = {"offsets": begins, "padding_index": None if padding < 0 else padding}
    if factors is not None:
        options["weights"] = array_of(factors)[: len(picks)]
    return picks, options


@functools.cache
def _bag_rows() -> Any:
    """Return the function that makes rows of bags, which is compiled once."""

    def made() -> Any:
        from ...lowering.native.bag_rows import bag_rows

        return bag_rows()

    return RUNTIME.make(made)


def found_bags(
    weight: Any, index: Any, offsets: Any, factors: Any, mode: Reduction, has_last: bool, padding_idx: int | None
) -> Any:
    """Return the result of a call with few indices, if it needs no gradient and one like it was made before, or None.

    The arguments need no checks: a call with others finds nothing.
    """
    if is_traced() or is_transformed() or has_function_mode():
        return None
    if type(index) is not torch.Tensor or (factors is None and type(offsets) is not torch.Tensor):
        return None
    try:
        count, is_max = weight.shape[0], mode == "max"
        if weight.ndim != 2 or weight.dtype not in _WIDE or (weight.requires_grad and is_grad_enabled()):
            return None
        if padding_idx is not None and not -count <= padding_idx < count:
            return None
        padding = -1 if padding_idx is None else padding_idx % count
        if factors is not None:
            if mode != "sum" or weight.dtype is not torch.float32 or factors.shape != index.shape:
                return None
            has_last = has_last and offsets is not None
            rows = _weighted_rows(index, offsets, has_last, count, padding, factors.numpy())
            return None if rows is None else _found_rows(WEIGHTED, weight, rows)
        rows = _rows(index, offsets, has_last, count, padding, is_max)
    except (AttributeError, RuntimeError, TypeError):  # what is no tensor, or has no array
        return None
    return None if rows is None else _found_rows(_OPERATORS[mode], weight, rows)


def _rows(index: Any, offsets: Any, has_last: bool, size: int, padding: int, is_max: bool, factors: Any = None) -> Any:
    """Return few bags as rows of positions, where `size` adds nothing; None of others, and of what has an error.

    With factors, an array of float32, the bits of one lie beside each position.
    """
    if offsets is None or index.numel() > _FEW or (is_max and padding >= 0):
        return None
    options = has_last, size, padding, is_max, max(MOST_PLACES_AN_INDEX, _FEW // max(index.numel(), 1))
    rows = _bag_rows()(index.numpy(), offsets.numpy(), *options, factors)
    return None if rows is None else torch.from_numpy(rows)


def _weighted_rows(index: Any, offsets: Any, has_last: bool, size: int, padding: int, factors: Any) -> Any:
    """Return few bags with factors of float32 as `_rows` does, by offsets or by rows."""
    if size >= 1 << 31:
        return None
    if offsets is None:
        if not 0 < index.numel() <= _FEW:
            return None
        offsets = _even_offsets(*index.shape)
        index, factors = index.reshape(-1), factors.reshape(-1)
    return _rows(index, offsets, has_last, size, padding, is_max=False, factors=factors)


@functools.lru_cache(64)
def _even_offsets(bags: int, length: int) -> Any:
    """Return where bags of one length begin."""
    return torch.arange(0, bags * length, length)


def _found_rows(operator: GatherReduce, weight: Any, rows: Any) -> Any:
    """Return what a call that was made before gives for rows of positions, or None."""
    finder = finders().signed if operator is WEIGHTED else finders().elements
    return finder.run(CALLS.find, weight, rows, None, *_KEYS[operator])


def _reduced_rows(operator: GatherReduce, weight: Any, rows: Any) -> Any:
    """Return what a call gives for rows of positions, and remember it for `_found_rows`."""
    found = _found_rows(operator, weight, rows)
    if found is not None:
        return found
    places = rows.numpy() if operator is WEIGHTED else unsigned(rows)
    request = Request(operator, Bounds.ZERO, None, (), None, None, None)
    return tensor_of(run(request, array_of(weight), places, None, CALLS, _KEYS[operator]), weight.dtype)


def _counts(rows: Any, size: int) -> Any:
    """Return how many positions of each row add something, as a column, and 1 where none does."""
    return (rows < size).sum(1, keepdim=True).clamp_(min=1)


def _as_rows(index: Any, offsets: Any, has_last: bool) -> tuple[Any, Any]:
    """Return bags of one length as rows of indices, without offsets, and others as they are.

    A small call by rows takes a fifth of the time; the bags of a feature with one value a sample are such.
    """
    if offsets is None:
        return index, None
    begins, count = array_of(offsets), len(offsets) - has_last
    end = int(begins[-1]) if has_last and count >= 0 else len(index)
    is_even = count > 0 and 0 < end <= len(index) and not end % count
    if not is_even or not np.array_equal(begins[:count], np.arange(0, end, end // count)):
        return index, offsets
    return index[:end].reshape(count, -1), None


def _sums(
    weight: Any, index: Any, offsets: Any, factors: Any, is_mean: bool, has_last: bool = False, padding: int = -1
) -> Any:
    return reduced(weight, index, offsets, "mean" if is_mean else "sum", has_last, padding, factors)


def _sums_like(
    weight: Any, index: Any, offsets: Any, factors: Any, is_mean: bool, has_last: bool = False, *_: Any
) -> Any:
    return weight.new_empty((index.shape[0] if offsets is None else offsets.shape[0] - has_last, weight.shape[1]))


def _backward(
    grad: Any,
    index: Any,
    offsets: Any,
    factors: Any,
    rows: int,
    is_mean: bool,
    has_last: bool = False,
    padding: int = -1,
) -> Any:
    columns = grad.shape[-1]
    if factors is None and grad.dtype in _WIDE:
        places = _rows(index, offsets, has_last, rows, padding, is_max=False)
        if places is not None:
            spread = (grad / _counts(places, rows) if is_mean else grad).unsqueeze(1).expand(-1, places.shape[1], -1)
            return added_up(Gather(0), finders().elements, spread, (rows, columns), places, Bounds.ZERO)
    if factors is None:
        index, offsets = _as_rows(index, offsets, has_last)
    if offsets is None and factors is None and padding < 0 and grad.dtype in _WIDE:
        length = index.shape[1]
        spread = (grad / max(length, 1) if is_mean else grad).unsqueeze(1).expand(-1, length, -1)
        return added_up(Gather(0), finders().elements, spread, (rows, columns), index)
    picks, options = _bags(index, offsets, has_last, padding, factors)
    options["reduce"] = "mean" if is_mean else "sum"
    return tensor_of(gather_reduce_grad(array_of(grad), picks, (rows, columns), **options), grad.dtype)


def _factors_backward(
    grad: Any, weight: Any, index: Any, offsets: Any, has_last: bool = False, padding: int = -1
) -> Any:
    picks, options = _bags(index, offsets, has_last, padding)
    found = tensor_of(gather_reduce_weights_grad(array_of(grad), array_of(weight), picks, **options), grad.dtype)
    if len(found) == len(index):
        return found
    return torch.cat([found, found.new_zeros(len(index) - len(found))])  # after the last offset


def _rows_of_largest(weight: Any, index: Any, offsets: Any, has_last: bool = False, padding: int = -1) -> Any:
    rows = _rows(index, offsets, has_last, weight.shape[0], padding, is_max=True)
    if rows is not None:
        return torch.from_numpy(rows_of_largest_in(array_of(weight), rows.numpy()))
    picks, options = _bags(index, offsets, has_last, padding)
    ends = read_ends(picks, options["offsets"], None)
    try:
        bags = make_bags(picks, weight.shape[0], Bounds.ERROR, options["padding_index"], ends)
    except BoundsError:
        raise outside(index, "input", 0, weight.shape[0]) from None
    return torch.from_numpy(rows_of_largest(array_of(weight), bags.of_largest()))


def _rows_like(weight: Any, index: Any, offsets: Any, has_last: bool = False, padding: int = -1) -> Any:
    return _sums_like(weight, index, offsets, None, False, has_last).to(torch.int64)


EMBEDDING_BAG = Operator(
    "embedding_bag(Tensor weight, Tensor indices, Tensor? offsets, Tensor? per_sample_weights, bool is_mean, "
    "bool include_last_offset=False, SymInt padding_idx=-1) -> Tensor",
    _sums,
    _sums_like,
)
BAG_BACKWARD = Operator(
    "embedding_bag_backward(Tensor grad, Tensor indices, Tensor? offsets, Tensor? per_sample_weights, "
    "SymInt num_weights, bool is_mean, bool include_last_offset=False, SymInt padding_idx=-1) -> Tensor",
    _backward,
    lambda grad, index, offsets, factors, rows, *_: grad.new_empty((rows, grad.shape[-1])),
)
FACTORS_BACKWARD = Operator(
    "embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor? offsets, "
    "bool include_last_offset=False, SymInt padding_idx=-1) -> Tensor",
    _factors_backward,
    lambda grad, weight, index, *_: grad.new_empty(index.shape),
)
ROWS_OF_LARGEST = Operator(
    "embedding_bag_rows_of_largest(Tensor weight, Tensor indices, Tensor? offsets, bool include_last_offset=False, "
    "SymInt padding_idx=-1) -> Tensor",
    _rows_of_largest,
    _rows_like,
)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    weight, index, offsets, factors, ctx.is_mean, *ctx.rest = inputs
    ctx.rows = weight.shape[0]
    ctx.save_for_backward(None if factors is None else weight, index, offsets, factors)


def _save_of_backward(ctx: Any, inputs: Any, output: Any) -> None:
    grad, index, offsets, factors, ctx.rows, ctx.is_mean, *ctx.rest = inputs
    ctx.save_for_backward(None if factors is None else grad, index, offsets, factors)


def _save_of_factors(ctx: Any, inputs: Any, output: Any) -> None:
    grad, weight, index, offsets, *ctx.rest = inputs
    ctx.save_for_backward(grad, weight, index, offsets)


def _of_sums(ctx: Any, grad: Any) -> tuple[Any, ...]:
    weight, index, offsets, factors = ctx.saved_tensors
    by_weight = by_factors = None
    if ctx.needs_input_grad[0]:
        by_weight = BAG_BACKWARD(grad, index, offsets, factors, ctx.rows, ctx.is_mean, *ctx.rest)
    if ctx.needs_input_grad[3]:
        by_factors = FACTORS_BACKWARD(grad, weight, index, offsets, *ctx.rest)
    return by_weight, None, None, by_factors, *[None] * (1 + len(ctx.rest))


def _of_backward(ctx: Any, table: Any) -> tuple[Any, ...]:
    grad, index, offsets, factors = ctx.saved_tensors
    by_grad = by_factors = None
    if ctx.needs_input_grad[0]:
        by_grad = EMBEDDING_BAG(table, index, offsets, factors, ctx.is_mean, *ctx.rest)
    if ctx.needs_input_grad[3]:
        by_factors = FACTORS_BACKWARD(grad, table, index, offsets, *ctx.rest)
    return by_grad, None, None, by_factors, *[None] * (2 + len(ctx.rest))


def _of_factors(ctx: Any, each: Any) -> tuple[Any, ...]:
    grad, weight, index, offsets = ctx.saved_tensors
    by_grad = by_weight = None
    if ctx.needs_input_grad[0]:
        by_grad = EMBEDDING_BAG(weight, index, offsets, each, False, *ctx.rest)
    if ctx.needs_input_grad[1]:
        by_weight = BAG_BACKWARD(grad, index, offsets, each, weight.shape[0], False, *ctx.rest)
    return by_grad, by_weight, *[None] * (2 + len(ctx.rest))


def _added(first: Any, second: Any) -> Any:
    """Return the sum of tangents, either of which may be missing."""
    return first if second is None else second if first is None else first + second


def _along_sums(ctx: Any, by_weight: Any, _index: Any, _offsets: Any, by_factors: Any, *_: Any) -> Any:
    weight, index, offsets, factors = ctx.saved_tensors
    rest = ctx.is_mean, *ctx.rest
    return _added(
        None if by_weight is None else EMBEDDING_BAG(by_weight, index, offsets, factors, *rest),
        None if by_factors is None else EMBEDDING_BAG(weight, index, offsets, by_factors, *rest),
    )


def _along_backward(ctx: Any, by_grad: Any, _index: Any, _offsets: Any, by_factors: Any, *_: Any) -> Any:
    grad, index, offsets, factors = ctx.saved_tensors
    rest = ctx.rows, ctx.is_mean, *ctx.rest
    return _added(
        None if by_grad is None else BAG_BACKWARD(by_grad, index, offsets, factors, *rest),
        None if by_factors is None else BAG_BACKWARD(grad, index, offsets, by_factors, *rest),
    )


def _along_factors(ctx: Any, by_grad: Any, by_weight: Any, *_: Any) -> Any:
    grad, weight, index, offsets = ctx.saved_tensors
    return _added(
        None if by_grad is None else FACTORS_BACKWARD(by_grad, weight, index, offsets, *ctx.rest),
        None if by_weight is None else FACTORS_BACKWARD(grad, by_weight, index, offsets, *ctx.rest),
    )


EMBEDDING_BAG.differentiate(_save, _of_sums, _along_sums)
BAG_BACKWARD.differentiate(_save_of_backward, _of_backward, _along_backward)
ROWS_OF_LARGEST.differentiate(lambda *_: None, lambda ctx, grad: (None,) * 5, lambda *_: None)
FACTORS_BACKWARD.differentiate(_save_of_factors, _of_factors, _along_factors)
