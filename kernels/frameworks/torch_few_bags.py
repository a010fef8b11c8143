"""Few bags as rows of positions, which machine code makes, and sums of them: the way of small calls of `embedding_bag`.

NumPy makes bags of many indices as fast; of few it takes 10 times as long as the sums.
"""

import functools
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from ...ir.operator_spec import GatherReduce
from ...ir.semantics import Bounds
from ..host.runtime import RUNTIME
from ..reduction.bags import LARGEST, MEAN, MOST_PLACES_AN_INDEX, OPERATOR, WEIGHTED
from ..runtime.call_cache import CALLS
from ..runtime.dispatch import Request, keys_of_gather, run
from .torch_fast_call import finders
from .torch_tensors import array_of, outside, tensor_of

FEW = 4096
# Added in float32, and rounded once.
NARROW = (torch.float16, torch.bfloat16)
# Those of calls by rows of positions. To make them takes 1 us.
_KEYS = {operator.name: keys_of_gather(operator, Bounds.ZERO) for operator in (OPERATOR, MEAN, LARGEST, WEIGHTED)}
# What `bag_rows` takes: indices, offsets, has_last, size, padding, repeats_first, most_places and weights.
FewBags = tuple[Any, ...]


def few_bags(
    index: Any, offsets: Any, factors: Any, has_last: Any, size: int, padding: int, is_max: bool = False
) -> FewBags | None:
    """Return bags of few indices by offsets, or with factors; None of others."""
    count = index.numel()
    if count > FEW or (is_max and padding >= 0):
        return None
    if factors is not None:
        if size >= 1 << 31:
            return None
        if factors.requires_grad:
            factors = factors.detach()
        if offsets is None:
            if not count:
                return None
            offsets, index, factors = even_offsets(*index.shape), index.reshape(-1), factors.reshape(-1)
        if factors.dtype in NARROW:
            factors = factors.float()
    if offsets is None:
        return None
    return (
        index,
        offsets,
        bool(has_last),
        size,
        padding,
        is_max,
        max(MOST_PLACES_AN_INDEX, FEW // (count or 1)),
        factors,
    )


def rows_of(few: FewBags | None) -> Any:
    """Return few bags as rows of positions, an array, where `size` adds nothing; None of others, and of errors.

    With factors, the bits of one lie beside each position.
    """
    if few is None:
        return None
    index, offsets, *options, factors = few
    return _bag_rows()(index.numpy(), offsets.numpy(), *options, None if factors is None else array_of(factors))


def positions_of(few: FewBags | None) -> tuple[Any, Any] | None:
    """Return few bags as positions and factors, tensors (bags, longest) each, where `size` adds nothing.

    The factors are None without any. Returns None of other bags, and of errors.
    """
    rows = rows_of(few)
    if rows is None or few is None:
        return None
    if few[-1] is None:
        return torch.from_numpy(rows), None
    return torch.from_numpy(rows[..., 0].copy()), torch.from_numpy(rows[..., 1].view(f"f{rows.itemsize}"))


def found_few(operator: GatherReduce, weight: Any, few: FewBags) -> Any:
    """Return what a call that was made before gives, or None."""
    found = finders().signed.bags(CALLS.find, weight, *_KEYS[operator.name], _bag_rows(), *few)
    return None if found is None else rounded_to(weight.dtype, found)


def reduced_few(operator: GatherReduce, weight: Any, few: FewBags | None) -> Any:
    """Return what a call gives, and remember it for `found_few`; None where it has no rows."""
    if few is None:
        return None
    found = found_few(operator, weight, few)
    if found is not None:
        return found
    rows = rows_of(few)
    if rows is None:
        return None
    request = Request(operator, Bounds.ZERO, None, (), None, None, None)
    result = run(request, array_of(weight), rows, None, CALLS, _KEYS[operator.name])
    return rounded_to(weight.dtype, tensor_of(result, torch.float32 if weight.dtype in NARROW else weight.dtype))


def factors_of_few(grad: Any, weight: Any, index: Any, offsets: Any, padding: int) -> Any:
    """Return the gradient with respect to few factors, with the bytes of `gather_reduce_weights_grad`.

    Raises:
        BoundsError: an index is outside.
    """
    places, sums = array_of(index).reshape(-1).copy(), array_of(grad)  # another thread may write to indices
    if places.view(f"u{places.itemsize}").max(initial=0) >= max(weight.shape[0], 1):
        raise outside(index, "input", 0, weight.shape[0])
    rows = array_of(weight).take(places, axis=0)
    if grad.dtype in NARROW:
        rows, sums = rows.astype(np.float32), sums.astype(np.float32)
    lengths: Any = index.shape[-1]
    if offsets is not None:
        begins = array_of(offsets)
        lengths = np.empty(len(begins), np.int64)
        lengths[:-1], lengths[-1:] = begins[1:], len(places)
        lengths -= begins
    found = np.einsum("nj,nj->n", rows, sums.repeat(lengths, axis=0))
    if padding >= 0:
        found[places == padding] = 0
    return torch.from_numpy(found).to(grad.dtype).reshape(index.shape)


def rounded_to(dtype: Any, sums: Any) -> Any:
    """Return sums in the dtype of the rows; `to` takes 1 us more."""
    return sums.bfloat16() if dtype is torch.bfloat16 else sums.half() if dtype is torch.float16 else sums


@functools.cache
def _bag_rows() -> Any:
    """Return the function that makes rows of bags, which is compiled once."""

    def made() -> Any:
        from ...lowering.native.bag_rows import bag_rows

        return bag_rows()

    return RUNTIME.make(made)


@functools.lru_cache(64)
def even_offsets(bags: int, length: int) -> Any:
    """Return where bags of one length begin."""
    return torch.arange(0, bags * length, length)
