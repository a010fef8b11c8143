"""The operators of `embedding_bag`: sums of bags, their two gradients, and the rows of the largest elements.

`sum over n of factors[n] * weight[indices[n]] * grad[bag of n]` is linear in each of the three tensors. The sums of
bags are its derivative by grad, and the gradients those by weight and by factors: so the gradient of one is the others.
"""

from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from ...ir.errors import BoundsError, InvalidGatherError
from ...ir.operator_spec import Gather, GatherReduce
from ...ir.semantics import Bounds
from ..reduction.bags import OPERATORS, WEIGHTED, make_bags, read_ends
from ..reduction.gather_reduce import gather_reduce
from ..reduction.largest import rows_of_largest, rows_of_largest_in
from ..reduction.operands import Reduction
from ..reduction.reduce_gradients import gather_reduce_grad, gather_reduce_weights_grad
from ..runtime.call_cache import CALLS
from ..runtime.dispatch import keys_of_gather
from .torch_fast_call import finders
from .torch_few_bags import (
    FEW,
    NARROW,
    even_offsets,
    factors_of_few,
    few_bags,
    found_few,
    positions_of,
    reduced_few,
    rounded_to,
    rows_of,
)
from .torch_operators import GATHER, Operator, added_up, plain_function
from .torch_tensors import (
    OF_TORCH,
    PLAIN,
    array_of,
    has_function_mode,
    is_grad_enabled,
    is_traced,
    is_transformed,
    outside,
    tensor_of,
    unsigned,
)

# Of elements of rows and few factors, that are stored: 0.2 to 0.6 of the time of other ways up to here, 0.6 to 3 from
# 2**20.
MOST_PRODUCTS = 2**18
SUMMED = (torch.float32, torch.float64, *NARROW)
_KEYS = {operator.name: keys_of_gather(operator, Bounds.ERROR) for operator in OPERATORS.values()}
_Missing = type(None)


def reduced(
    weight: Any, index: Any, offsets: Any, mode: Reduction, has_last: bool, padding: int, factors: Any = None
) -> Any:
    """Return the sums, the means or the largest elements of bags of dense tensors; raises BoundsError."""
    operator = OPERATORS[mode]
    try:
        if factors is None or factors.dtype is weight.dtype:
            few = few_bags(index, offsets, factors, has_last, weight.shape[0], padding, mode == "max")
            found = reduced_few(operator if factors is None else WEIGHTED, weight, few)
            if found is not None:
                return found
        if factors is None and mode != "max":
            index, offsets = _as_rows(index, offsets, has_last)
        if offsets is None and factors is None and padding < 0:
            found = _found_rows(operator, weight, index)
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
        *before, end = [0, *begins[-2:].tolist()]
        if not before or not max(before) <= end <= len(picks):
            must = f"end the last bag, at most at {len(picks)}, the number of indices; got {end if before else 'none'}"
            raise InvalidGatherError(f"with include_last_offset=True the last of offsets must {must}")
        picks, begins = picks[:end], begins[:-1]
    options = {"offsets": begins, "padding_index": None if padding < 0 else padding}
    if factors is not None:
        options["weights"] = array_of(factors)[: len(picks)]
    return picks, options


def found_bags(
    weight: Any,
    index: Any,
    offsets: Any,
    factors: Any,
    mode: Reduction,
    has_last: bool,
    padding_idx: int | None,
    is_ours: bool,
) -> Any:
    """Return the result of a call that was made before, with its gradient if that `is_ours`, or None.

    The arguments need few checks: a call with others finds nothing.
    """
    if is_traced() or is_transformed() or has_function_mode():
        return None
    if type(index) is not torch.Tensor or type(offsets) not in (torch.Tensor, _Missing) or type(weight) not in PLAIN:
        return None
    try:
        count, is_max = weight.shape[0], mode == "max"
        is_derived = is_grad_enabled() and (weight.requires_grad or (factors is not None and factors.requires_grad))
        if weight.ndim != 2 or weight.dtype not in SUMMED or (is_derived and not is_ours):
            return None
        if not weight.is_cpu or weight.layout is not torch.strided:
            return None
        if padding_idx is not None and not -count <= padding_idx < count:
            return None
        padding = -1 if padding_idx is None else padding_idx % count
        has_last = has_last and offsets is not None
        if factors is not None:
            if mode != "sum" or type(factors) not in PLAIN or factors.shape != index.shape:
                return None
            if factors.dtype is not weight.dtype:
                return None
        elif is_max and is_derived:
            return _largest_of_few(weight, index, offsets, has_last, padding)
        operator = OPERATORS[mode] if factors is None else WEIGHTED
        if offsets is None and factors is None:
            found = _found_rows(operator, weight, index) if index.ndim == 2 and padding < 0 else None
        else:
            few = few_bags(index, offsets, factors, has_last, count, padding, is_max)
            found = None if few is None else found_few(operator, weight, few)
    except (AttributeError, RuntimeError, TypeError, BoundsError):  # what is no tensor, or has no array
        return None
    if found is None or not is_derived:
        return found
    return _derived(weight, index, offsets, factors, mode == "mean", has_last, padding, (found,))


def _found_rows(operator: GatherReduce, weight: Any, index: Any) -> Any:
    """Return what a call by rows of indices that was made before gives, or None; raises BoundsError."""
    found = finders().elements.run(CALLS.find, weight, index, None, *_KEYS[operator.name])
    return None if found is None else rounded_to(weight.dtype, found)


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
    found = positions_of(few_bags(index, offsets, factors, has_last, rows, padding))
    if found is not None and (factors is None or found[0].numel() * columns <= MOST_PRODUCTS):
        places, weights = found
        spread = _spread(grad, _counts(places, rows) if is_mean else None, places.shape[1])
        if weights is not None:
            spread = spread * weights.unsqueeze(2)
        sums = added_up(Gather(0), finders().elements, spread, (rows, columns), places, Bounds.ZERO)
        return sums.to(grad.dtype)
    if factors is None:
        index, offsets = _as_rows(index, offsets, has_last)
        length = index.shape[1] if offsets is None else 0
        if offsets is None and padding < 0 and (grad.dtype not in NARROW or index.numel() <= FEW):
            spread = _spread(grad, max(length, 1) if is_mean else None, length)
            return added_up(Gather(0), finders().elements, spread, (rows, columns), index).to(grad.dtype)
    picks, options = _bags(index, offsets, has_last, padding, factors)
    options["reduce"] = "mean" if is_mean else "sum"
    return tensor_of(gather_reduce_grad(array_of(grad), picks, (rows, columns), **options), grad.dtype)


def _spread(grad: Any, counts: Any, length: int) -> Any:
    """Return (bags, length, columns), a view: the gradient of each row of bags, divided by counts; float32 of less."""
    wide = grad.float() if grad.dtype in NARROW else grad
    if counts is not None:  # the quotient of so few has the bits that one rounding gives
        wide = (wide / counts).to(grad.dtype).to(wide.dtype)
    return wide.unsqueeze(1).expand(-1, length, -1)


def _factors_backward(
    grad: Any, weight: Any, index: Any, offsets: Any, has_last: bool = False, padding: int = -1
) -> Any:
    is_few = index.numel() <= FEW and index.numel() * weight.shape[1] <= MOST_PRODUCTS
    if is_few and grad.dtype == weight.dtype and (offsets is None or not has_last):
        return factors_of_few(grad, weight, index, offsets, padding)
    picks, options = _bags(index, offsets, has_last, padding)
    found = tensor_of(gather_reduce_weights_grad(array_of(grad), array_of(weight), picks, **options), grad.dtype)
    if len(found) == len(index):
        return found
    return torch.cat([found, found.new_zeros(len(index) - len(found))])  # after the last offset


def _rows_of_largest(weight: Any, index: Any, offsets: Any, has_last: bool = False, padding: int = -1) -> Any:
    rows = rows_of(few_bags(index, offsets, None, has_last, weight.shape[0], padding, is_max=True))
    if rows is not None:
        return torch.from_numpy(rows_of_largest_in(array_of(weight), rows))
    picks, options = _bags(index, offsets, has_last, padding)
    ends = read_ends(picks, options["offsets"], None)
    try:
        bags = make_bags(picks, weight.shape[0], Bounds.ERROR, options["padding_index"], ends)
    except BoundsError:
        raise outside(index, "input", 0, weight.shape[0]) from None
    return torch.from_numpy(rows_of_largest(array_of(weight), bags.of_largest()))


def _largest_of_few(weight: Any, index: Any, offsets: Any, has_last: bool, padding: int) -> Any:
    """Return the largest elements of few bags with their gradient, or None of others.

    Torch's own function finds the same elements and their rows in one go; its gradient rounds each addition.
    """
    if offsets is None:
        if not index.numel():
            return None
        index, offsets = index.reshape(-1), even_offsets(*index.shape).to(index.dtype)
    if index.dtype not in OF_TORCH or offsets.dtype not in OF_TORCH:
        return None
    if rows_of(few_bags(index, offsets, None, has_last, weight.shape[0], padding)) is None:
        return None
    if has_last:
        index, offsets = index[: int(offsets[-1])], offsets[:-1]
    options = False, 2, False, None, False, padding
    values, _, counts, rows = torch._embedding_bag(weight.detach(), index, offsets, *options)
    return _derived_largest(weight, (values, rows, counts))


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


def _kept(ctx: Any, *inputs: Any) -> Any:
    _save(ctx, inputs[:-1], None)
    return inputs[-1][0]


# `apply(weight, index, offsets, factors, is_mean, has_last, padding, (result,))`, without what transforms ask for.
_derived = plain_function("embedding_bag", _kept, lambda ctx, grad: (*_of_sums(ctx, grad), None))


def _keep_rows(ctx: Any, weight: Any, found: Any) -> Any:
    values, *ctx.found = found  # nobody else has these tensors, and to save them takes 2 us
    ctx.shape = weight.shape
    return values


def _of_largest(ctx: Any, grad: Any) -> tuple[Any, None]:
    rows, counts = ctx.found
    is_there = counts.unsqueeze(1) > 0
    return GATHER.reverse(torch.where(is_there, grad, 0), ctx.shape, 0, torch.where(is_there, rows, 0)), None


_derived_largest = plain_function("embedding_bag_largest", _keep_rows, _of_largest)
