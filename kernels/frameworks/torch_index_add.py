"""`index_add` of `gathernest.torch`: the gradient of `index_select` with respect to its input, added to a tensor."""

import cmath
import functools
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.overrides import handle_torch_function  # pyright: ignore[reportMissingImports]

from ...ir.errors import BoundsError, InvalidGatherError, show
from ...ir.operator_spec import Gather
from ...ir.semantics import Bounds
from ..gradient import keys_of_gradient
from ..host.knobs import knobs
from ..runtime.call_cache import CALLS
from .torch_fast_call import finders
from .torch_few_bags import NARROW, rounded_to
from .torch_operators import SELECT, Operator, added_up, converted, plain_function
from .torch_tensors import (
    PLAIN,
    check_index,
    check_tensor,
    checked_dim,
    has_function_mode,
    is_overridden,
    is_traced,
    is_transformed,
    outside,
)

_WHOLE = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
_Missing = type(None)
_ADDED = {*NARROW, *_WHOLE, torch.float32, torch.float64, torch.complex64, torch.complex128}


def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1, out: Tensor | None = None
) -> Tensor:
    """Return `input` plus `alpha` times the slices of `source`, each added at its index, as `torch.index_add` does.

    `result[.., index[i], ..] = input[.., index[i], ..] + alpha * (source[.., i, ..] + ...)` along `dim`: the slices of
    an index are added in their order, and then to `input`, where torch adds each to it: the last bit can differ, and
    the sign of a zero. The bytes are the same for any number of threads. float16 and bfloat16 are added in float32
    and rounded once.

    Args:
        input: a dense CPU tensor of integers, floats or complex numbers, which is not changed.
        dim: in [-rank, rank-1].
        index: integers of any width in [0, size of dim - 1], of rank 1 or 0.
        source: of the dtype and the shape of input, but along `dim` of the length of index.
        alpha: what the sums are multiplied by; a whole number that the dtype holds for integers.
        out: a tensor of input's dtype for the result, which may be input: of its shape, or without elements.

    Returns:
        `out`, or a new contiguous tensor. `input` and `source` have gradients, which can be derived again.

    Raises:
        BoundsError: an index is outside; a negative one is, too, as in torch.
        IndexTypeError: `index` has no integers.
        InvalidGatherError: an argument is no dense CPU tensor, or shapes, dtypes or `alpha` do not fit.
    """
    found = None if out is not None or alpha != 1 else _found(input, dim, index, source, alpha)
    if found is not None:
        return found
    tensors = input, index, source, out
    if is_overridden(*tensors):
        return handle_torch_function(index_add, tensors, input, dim, index, source, alpha=alpha, out=out)
    if not is_traced():
        check_tensor(input, "input", "index_add")
        check_tensor(source, "source", "index_add")
        check_index(index, "index", "index_add")
        if out is not None:
            check_tensor(out, "out", "index_add")
    dim = checked_dim(dim, input.dim())
    _check(input, dim, index, source, alpha)
    alpha = int(alpha) if input.dtype in _WHOLE and isinstance(alpha, float) else alpha
    if out is None:
        return _added(input, dim, index, source, alpha)
    _check_out(input, source, out)
    with torch.no_grad():
        result = _added(input, dim, index, source, alpha)
        if out.shape != input.shape:
            out.resize_(input.shape)
        return out.copy_(result)


def _found(input: Any, dim: Any, index: Any, source: Any, alpha: Any) -> Any:
    """Return the result of a call that was made before, with its gradient, or None; the arguments need no checks."""
    if is_traced() or is_transformed() or has_function_mode() or type(dim) is not int or type(index) is not Tensor:
        return None
    if type(input) not in PLAIN or type(source) not in PLAIN:
        return None
    try:
        dtype, rank = input.dtype, input.ndim
        if source.dtype is not dtype or index.ndim != 1 or not -rank <= dim < rank or type(alpha) is not int:
            return None
        if not input.is_cpu or input.layout is not torch.strided:
            return None
        place = dim + rank if dim < 0 else dim
        is_derived = torch.is_grad_enabled() and (input.requires_grad or source.requires_grad)
        slices = source.detach() if source.requires_grad else source
        slices = slices.float() if dtype in NARROW else slices
        keys = _keys(place, input.shape, knobs.num_threads)
        sums = finders().elements.run(CALLS.find, slices, index, None, *keys)
        if sums is None:
            return None
        result = rounded_to(dtype, sums.add_(input.detach() if is_derived else input))
    except (AttributeError, RuntimeError, TypeError, BoundsError):  # the way with checks says why
        return None
    return _derived(input, place, index, source, alpha, (result,)) if is_derived else result


@functools.lru_cache(256)
def _keys(dim: int, shape: Any, threads: Any) -> Any:
    """Return the keys of a call in the call cache, which take 2 us to make."""
    return keys_of_gradient(Gather(dim), Bounds.ERROR, tuple(shape))


def _added(input: Any, dim: int, index: Any, source: Any, alpha: Any) -> Any:
    """Return the result; scalars count as tensors of one element."""
    if input.dim() == 0:
        return INDEX_ADD(input.reshape(1), 0, index.reshape(1), source.reshape(1), alpha).reshape(())
    return INDEX_ADD(input, dim, index.reshape(1) if index.dim() == 0 else index, source, alpha)


def _check(input: Any, dim: int, index: Any, source: Any, alpha: Any) -> None:
    if index.dim() > 1:
        raise InvalidGatherError(f"index must have rank 1 or 0, got shape {tuple(index.shape)}")
    if input.dtype not in _ADDED or source.dtype != input.dtype:
        raise InvalidGatherError(
            "input and source must have one dtype, integers of up to 64 bits, float16 to float64, bfloat16 or complex, "
            f"got {input.dtype} and {source.dtype}; convert them, as by .float()"
        )
    shape, count = tuple(input.shape), index.numel()
    wanted = (*shape[:dim], count, *shape[dim + 1 :]) if shape else ()
    if tuple(source.shape) != wanted and not (not shape and source.numel() == 1 == count):
        raise InvalidGatherError(
            f"source must have shape {wanted}, that of input with the length of index along dim {dim}, got "
            f"{tuple(source.shape)}"
        )
    if not shape and count != 1:
        raise InvalidGatherError(f"index must have one element for a scalar input, got {count}")
    if isinstance(alpha, (str, bytes, _Missing)) or (isinstance(alpha, int) and not -(2**63) <= alpha < 2**63):
        raise InvalidGatherError(f"alpha must be a number, a whole one of at most 64 bits, got {show(alpha)}")
    if input.dtype in _WHOLE and isinstance(alpha, (int, float, complex)):
        most = torch.iinfo(input.dtype).max
        least = torch.iinfo(input.dtype).min or -most
        if isinstance(alpha, complex) or alpha % 1 or not least <= alpha <= most:
            raise InvalidGatherError(
                f"alpha must be a whole number from {least} to {most} for {input.dtype}, got {show(alpha)}"
            )
    elif isinstance(alpha, (float, complex)) and cmath.isfinite(alpha):
        most = torch.finfo(torch.float32 if input.dtype in NARROW else input.dtype).max
        if max(abs(alpha.real), abs(alpha.imag)) > most:
            raise InvalidGatherError(f"alpha must be at most {most} in size for {input.dtype}, got {show(alpha)}")
    if isinstance(alpha, complex) and not input.dtype.is_complex:
        raise InvalidGatherError(f"alpha must be real for {input.dtype}, as in torch, got {show(alpha)}")


def _check_out(input: Any, source: Any, out: Any) -> None:
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (input, source, out)):
        raise InvalidGatherError(
            "out cannot be used where a gradient is wanted, as in torch; leave it away, or call within torch.no_grad()"
        )
    if out.dtype != input.dtype:
        raise InvalidGatherError(f"out must have dtype {input.dtype} as input has, got {out.dtype}")
    if out.shape != input.shape and out.numel():
        raise InvalidGatherError(
            f"out must have shape {tuple(input.shape)}, or no elements, got shape {tuple(out.shape)}"
        )


def _index_add(input: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    is_rounded = input.dtype in NARROW
    slices = converted(source, torch.float32) if is_rounded else source
    is_finite = cmath.isfinite(alpha)
    if not is_finite:  # times the zero of a row that no index names it would be NaN
        slices = slices * alpha
    try:
        sums = added_up(Gather(dim), finders().elements, slices, input.shape, index)
    except BoundsError:
        raise outside(index, "index", dim, input.shape[dim]) from None
    if alpha != 1 and is_finite:  # one rounding after the other: an addition with alpha rounds once in vectors only
        sums.mul_(alpha)
    sums.add_(input)
    return converted(sums, input.dtype) if is_rounded else sums


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    table, dim, index, _, alpha = inputs
    ctx.save_for_backward(index)
    ctx.kept = table.shape, dim, alpha


def _backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    _, dim, alpha = ctx.kept
    by_source = None
    if ctx.needs_input_grad[3]:
        by_source = SELECT(grad, dim, ctx.saved_tensors[0])
        by_source = by_source if alpha == 1 else by_source * alpha.conjugate()
    return grad if ctx.needs_input_grad[0] else None, None, None, by_source, None


def _along(ctx: Any, by_input: Any, _dim: Any, _index: Any, by_source: Any, _alpha: Any) -> Any:
    shape, dim, alpha = ctx.kept
    if by_source is None:
        return by_input.clone()
    given = by_source.new_zeros(shape) if by_input is None else by_input
    return INDEX_ADD(given, dim, ctx.saved_tensors[0], by_source, alpha)


INDEX_ADD = Operator(
    "index_add(Tensor input, SymInt dim, Tensor index, Tensor source, Scalar alpha=1) -> Tensor",
    _index_add,
    lambda table, *_: table.new_empty(table.shape),
)
INDEX_ADD.differentiate(_save, _backward, _along)


def _kept(ctx: Any, *inputs: Any) -> Any:
    _save(ctx, inputs[:-1], None)
    return inputs[-1][0]


# `apply(input, dim, index, source, alpha, (result,))`, without what transforms ask for.
_derived = plain_function("index_add", _kept, lambda ctx, grad: (*_backward(ctx, grad), None))
