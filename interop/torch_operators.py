"""The operators of `gathernest.torch`: a table with one row an operator, registered with `torch.library`.

A row has the operator's schema, its functions of dense CPU tensors, and the sizes from which it runs in the place of
torch's own function. The gradient of an operator is an operator; gradients of slices can be derived again.
"""

import cmath
import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]

from ..ir.errors import InvalidGatherError
from ..kernels.gather import gather, gather_elements
from ..kernels.gradient import gather_elements_grad, gather_grad
from ..kernels.host.knobs import knobs
from ..kernels.reduction.gather_reduce import gather_reduce, gather_reduce_grad, gather_reduce_weights_grad
from ..kernels.runtime.launch import available_threads
from .torch_tensors import INTEGERS, NARROW, PLAIN, array_of, for_torch, is_watched, tensor_of, unsigned

Formula = Callable[..., Any]
_is_tracing, _is_compiling = torch._C._is_tracing, torch.compiler.is_dynamo_compiling
_CORES = os.cpu_count() or 1
# The element types whose sums torch rounds as gathernest does: the sums of all others are always computed here.
_WIDE = frozenset((torch.float32, torch.float64))


@dataclass(frozen=True, slots=True)
class Row:
    """One operator.

    Attributes:
        schema: its name, arguments and result, as `torch.library` reads them.
        forward: its function of dense CPU tensors.
        fake: returns a tensor of the result's shape and dtype, of the same arguments; None where `forward` is made of
            operators, and is none itself.
        save: `save(ctx, inputs, output)` keeps in `ctx` what `backward` reads.
        backward: `backward(ctx, grad)` returns a gradient for each input; None where the result has none.
        min_elements: run `forward` only if the call gathers at least this number of elements; a lower number makes
            small calls slower than by torch's own function.
        min_grad_elements: the same of a call with a gradient, of the gathered elements and those of the table.
        torch_sums: the element types whose sums in the operator or its gradient torch's own function adds as exactly.
    """

    schema: str
    forward: Formula
    fake: Formula | None
    save: Formula | None = None
    backward: Formula | None = None
    min_elements: int = 0
    min_grad_elements: int = 0
    torch_sums: frozenset[torch.dtype] = _WIDE

    @property
    def name(self) -> str:
        return self.schema.partition("(")[0]


def is_small(row: Row, table: Any, index: Any, dim: int | None) -> bool:
    """Return whether torch's own function serves a call of plain tensors as fast, and adds its gradient as exactly.

    It takes 0.5 microseconds; a call that torch must see is not small. Indices name slices along `dim`, or elements
    where it is None.
    """
    if type(index) is not Tensor or _is_compiling() or _is_tracing() or type(table) not in PLAIN:
        return False
    wants_grad = table.requires_grad and torch.is_grad_enabled()
    return (not wants_grad or table.dtype in row.torch_sums) and not _is_large(row, table, index, dim, wants_grad)


def _is_large(row: Row, table: Any, index: Any, dim: int | None, wants_grad: bool) -> bool:
    elements = index.numel()
    if dim is not None and table.dim():
        elements *= table.numel() // (table.shape[dim] or 1)
    return elements + table.numel() >= row.min_grad_elements if wants_grad else elements >= row.min_elements


def is_ours(row: Row, table: Any, index: Any, dim: int | None, out: Any, wants_grad: bool) -> bool:
    """Return whether an operator runs a call that torch need not see, and not torch's own function; see `is_small`."""
    dtype = table.dtype
    for tensor in (table, index):
        if not tensor.is_cpu or tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
            return False
    if index.dtype not in INTEGERS:
        return False
    if out is not None:
        is_lazy = out.is_neg() or out.is_conj()
        if wants_grad or out.requires_grad or not out.is_cpu or out.dtype is not dtype or is_lazy:
            return False
    is_rounded = (wants_grad or row.name == "index_add") and dtype not in row.torch_sums
    return is_rounded or _is_large(row, table, index, dim, wants_grad)


def run(name: str, *arguments: Any) -> Any:
    """Run an operator: its function itself, or through torch's dispatcher where torch or a gradient must see it."""
    tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
    wants_grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    if _is_compiling() or wants_grad or is_watched(*tensors):
        return OPERATORS[name](*arguments)
    return TABLE[name].forward(*arguments)


def gathered_shape(table: Any, dim: int, index: Any, *_: Any) -> Any:
    """Return the shape of what the operator gathers: a vector of indices is of slices, any other of elements."""
    return index.shape if index.dim() != 1 else (*table.shape[:dim], index.shape[0], *table.shape[dim + 1 :])


def _obey_thread_limit(forward: Formula) -> Formula:
    """Return a function that uses no more threads than `torch.get_num_threads()` says."""

    @functools.wraps(forward)
    def limited(*arguments: Any, **options: Any) -> Any:
        threads = torch.get_num_threads()
        if threads >= _CORES or threads >= available_threads():
            return forward(*arguments, **options)
        with knobs.scope(num_threads=threads):
            return forward(*arguments, **options)

    return limited


def _gather(
    table: Any, dim: int, index: Any, from_end: bool = False, padding: int = -1, scale: bool = False, out: Any = None
) -> Any:
    values, picks = array_of(table), array_of(index) if from_end else unsigned(index)
    column = _column_of(picks, values.shape, dim)
    found = gather_elements(values, picks, dim, out=out) if column is None else gather(values, column, dim, out=out)
    return tensor_of(found, table.dtype)


def _gather_backward(
    grad: Any, shape: Sequence[int], dim: int, index: Any, from_end: bool = False, padding: int = -1,
    scale: bool = False,
) -> Any:  # fmt: skip
    picks = array_of(index) if from_end else unsigned(index)
    column = _column_of(picks, shape, dim)
    add, picks = (gather_elements_grad, picks) if column is None else (gather_grad, column)
    sums = _add_up(add, grad, picks, shape, dim)
    if padding >= 0:
        sums.select(dim, padding).zero_()
    return sums.div_(_count_uses(index, shape[dim], sums)) if scale else sums


def _count_uses(index: Any, size: int, like: Any) -> Any:
    """Return how often each of `size` rows is used, as a column of the dtype of `like`; 1 for a row without a use."""
    picks = for_torch(index).reshape(-1)
    counts = torch.zeros(size, dtype=torch.float64, device=like.device)
    counts = counts.index_add(0, picks, torch.ones_like(picks, dtype=torch.float64))
    return counts.clamp_(min=1).to(like.dtype).unsqueeze(1)


def _column_of(picks: np.ndarray, shape: Sequence[int], dim: int) -> np.ndarray | None:
    """Return a vector of indices, or the one that was expanded to indices of whole slices; None for other indices.

    Slices are moved in a fifth of the time of their elements.
    """
    if picks.ndim == 1:
        return picks
    others = [axis for axis in range(picks.ndim) if axis != dim]
    if not picks.size or any(picks.shape[axis] != shape[axis] for axis in others):
        return None
    if any(picks.strides[axis] and picks.shape[axis] > 1 for axis in others):
        return None
    return picks[tuple(slice(None) if axis == dim else 0 for axis in range(picks.ndim))]


def _add_up(add: Formula, grad: Any, picks: np.ndarray, shape: Sequence[int], dim: int) -> Any:
    """Return the gradient of a table; narrow floats are float32 meanwhile, of which kernels add twice as fast."""
    if grad.dtype in NARROW:
        return _convert(_add_up(add, _convert(grad, torch.float32), picks, shape, dim), grad.dtype)
    array = array_of(grad)
    if array.dtype.kind in "iu" and (grad.dtype.is_floating_point or grad.dtype.is_complex):
        raise InvalidGatherError(f"a gradient of {grad.dtype} cannot be added up; convert the table, as by .float()")
    return tensor_of(add(array, picks, tuple(shape), dim), grad.dtype)


def _convert(tensor: Any, dtype: Any) -> Any:
    """Return a copy in another dtype in memory of NumPy, whose huge pages are written in a quarter of the time."""
    memory = np.empty(tuple(tensor.shape), f"i{dtype.itemsize}")
    return torch.from_numpy(memory).view(dtype).copy_(tensor)


def _index_add(table: Any, dim: int, index: Any, source: Any, alpha: Any = 1, out: np.ndarray | None = None) -> Any:
    """Return the sums of a table and slices; torch derives it, as a gradient of a gather makes the sums."""
    slices = source.to(torch.float32) if table.dtype in NARROW else source
    if not cmath.isfinite(alpha):  # An infinite alpha times the zero of a row without an index would be NaN.
        slices, alpha = slices * alpha, 1
    sums = run("gather_backward", slices, table.shape, dim, index)
    sums = sums if alpha == 1 else sums.mul_(alpha)
    sums = sums.add_(table).to(table.dtype)
    if out is not None:
        out[...] = array_of(sums)
    return sums


def _bags(index: Any, offsets: Any, padding: int, factors: Any) -> tuple[Any, dict[str, Any]]:
    """Return the indices and the options of a reduction as gathernest's own functions take them.

    Bags of one length are rows of a matrix, whose sums take two thirds of the time.
    """
    picks, weights = unsigned(index), None if factors is None else array_of(factors)
    options: dict[str, Any] = {"padding_index": None if padding < 0 else padding}
    if offsets is not None:
        begins, size = array_of(offsets), len(picks) // max(len(offsets), 1)
        if size and size * len(begins) == len(picks) and np.array_equal(begins, np.arange(0, len(picks), size)):
            picks, weights = picks.reshape(-1, size), None if weights is None else weights.reshape(-1, size)
        else:
            options["offsets"] = begins
    return picks, options if weights is None else options | {"weights": weights}


def _embedding_bag(
    weight: Any, index: Any, offsets: Any, factors: Any, mode: Any = "sum", padding: int = -1, scale: bool = False
) -> Any:
    picks, options = _bags(index, offsets, padding, factors)
    return tensor_of(gather_reduce(array_of(weight), picks, reduce=mode, **options), weight.dtype)


def _bag_backward(
    grad: Any, weight: Any, index: Any, offsets: Any, factors: Any, rows: int, mode: Any = "sum", padding: int = -1,
    scale: Any = False,
) -> Any:  # fmt: skip
    picks, options = _bags(index, offsets, padding, factors)
    options |= {} if weight is None else {"data": array_of(weight)}
    sums = gather_reduce_grad(array_of(grad), picks, (rows, grad.shape[-1]), reduce=mode, **options)
    found = tensor_of(sums, grad.dtype)
    return found.div_(_count_uses(index, rows, found)) if scale else found


def _factors_backward(grad: Any, weight: Any, index: Any, offsets: Any, padding: int = -1) -> Any:
    picks, options = _bags(index, offsets, padding, None)
    found = gather_reduce_weights_grad(array_of(grad), array_of(weight), picks, **options)
    return tensor_of(found.reshape(tuple(index.shape)), grad.dtype)


def _save_gather(ctx: Any, inputs: Any, output: Any) -> None:
    """Keep what the gradients of a gather and of its gradient read; the latter has the shape of the table."""
    table, *shape, ctx.dim, index, from_end, padding, scale = inputs
    ctx.shape, ctx.rest = shape[0] if shape else table.shape, (from_end, padding, scale)
    ctx.save_for_backward(index)


def _derive_gather(ctx: Any, grad: Any) -> tuple[Any, ...]:
    by_table = run("gather_backward", grad, ctx.shape, ctx.dim, *ctx.saved_tensors, *ctx.rest)
    return by_table, None, None, None, None, None


def _derive_gather_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    (index,), (_, padding, scale) = ctx.saved_tensors, ctx.rest
    grad = grad / _count_uses(index, ctx.shape[0], grad) if scale else grad
    found = run("gather", grad, ctx.dim, index, *ctx.rest)
    return found.masked_fill((index == padding).unsqueeze(-1), 0) if padding >= 0 else found, *[None] * 6


def _save_bags(ctx: Any, inputs: Any, output: Any) -> None:
    weight, index, offsets, factors, *ctx.rest = inputs
    ctx.rows, is_read = weight.shape[0], factors is not None or ctx.rest[0] == "max"
    ctx.save_for_backward(weight if is_read else None, index, offsets, factors)


def _derive_bags(ctx: Any, grad: Any) -> tuple[Any, ...]:
    weight, index, offsets, factors = ctx.saved_tensors
    by_weight = by_factors = None
    if ctx.needs_input_grad[0]:
        largest = weight if ctx.rest[0] == "max" else None
        by_weight = run("embedding_bag_backward", grad, largest, index, offsets, factors, ctx.rows, *ctx.rest)
    if ctx.needs_input_grad[3]:
        by_factors = run("embedding_bag_weights_backward", grad, weight, index, offsets, ctx.rest[1])
    return by_weight, None, None, by_factors, None, None, None


# fmt: off
_ROWS = (  # schema; forward, fake, save, backward; min_elements, min_grad_elements, torch_sums
    Row("gather(Tensor input, SymInt dim, Tensor index, bool from_end=False, SymInt padding_idx=-1, bool scale=False) "
        "-> Tensor",
        _gather, lambda table, *rest: table.new_empty(gathered_shape(table, *rest)), _save_gather, _derive_gather,
        1 << 16, 1 << 20, _WIDE | {*NARROW, torch.complex64, torch.complex128}),
    Row("gather_backward(Tensor grad, SymInt[] shape, SymInt dim, Tensor index, bool from_end=False, "
        "SymInt padding_idx=-1, bool scale=False) -> Tensor",
        _gather_backward, lambda grad, shape, *_: grad.new_empty(tuple(shape)), _save_gather,
        _derive_gather_backward),
    Row("index_add", _index_add, None, None, None, 1 << 21, 1 << 20,
        _WIDE | {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}),
    Row("embedding_bag(Tensor weight, Tensor indices, Tensor? offsets, Tensor? per_sample_weights, str mode='sum', "
        "SymInt padding_idx=-1, bool scale=False) -> Tensor",
        _embedding_bag, lambda weight, index, offsets, *_: weight.new_empty(
            ((index if offsets is None else offsets).shape[0], weight.shape[1])),
        _save_bags, _derive_bags, 1 << 62, 1 << 20),
    Row("embedding_bag_backward(Tensor grad, Tensor? weight, Tensor indices, Tensor? offsets, "
        "Tensor? per_sample_weights, SymInt rows, str mode='sum', SymInt padding_idx=-1, bool scale=False) -> Tensor",
        _bag_backward, lambda grad, weight, index, offsets, factors, rows, *_: grad.new_empty((rows, grad.shape[-1]))),
    Row("embedding_bag_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor? offsets, "
        "SymInt padding_idx=-1) -> Tensor",
        _factors_backward, lambda grad, weight, index, *_: grad.new_empty(index.shape)),
)
# fmt: on


def _register(row: Row) -> Any:
    """Register an operator with torch, and return it; a function of operators is what it is."""
    name = row.name
    if row.fake is None:
        return row.forward
    operator = torch.library.custom_op(
        f"gathernest::{name}", row.forward, mutates_args=(), device_types="cpu", schema=row.schema[len(name) :]
    )
    operator.register_fake(row.fake)
    if row.backward is not None:
        operator.register_autograd(row.backward, setup_context=row.save)
    operator.register_vmap(functools.partial(_run_batch, name))
    return getattr(torch.ops.gathernest, name).default


def _run_batch(name: str, info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, int]:
    """Run an operator for each element of a batch, so that each result has the bytes of a call of its own."""
    pairs = list(zip(arguments, in_dims, strict=True))
    results = [
        run(name, *(value.select(dim, number) if isinstance(dim, int) else value for value, dim in pairs))
        for number in range(info.batch_size)
    ]
    return torch.stack(results), 0


TABLE = {row.name: replace(row, forward=_obey_thread_limit(row.forward)) if row.fake else row for row in _ROWS}
OPERATORS = {name: _register(row) for name, row in TABLE.items()}
