"""The functions and modules of `gathernest.torch`, by the names and with the arguments of torch's own.

Small calls, and calls that torch must see, run torch's own function; others run an operator of the table. Arguments are
checked where an operator runs, and where torch's function has failed, to say what to pass.
"""

import cmath
import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from ..ir.errors import BoundsError, InvalidGatherError, show
from ..ir.semantics import integer_argument
from .torch_operators import MAX_TINY_BYTES, TABLE, Row, is_ours, is_small, run
from .torch_tensors import (
    INTEGERS,
    NARROW,
    array_of,
    check_index,
    check_tensor,
    checked_dim,
    count_change,
    for_torch,
    is_watched,
    outside,
)

__all__ = [
    "Embedding",
    "EmbeddingBag",
    "embedding",
    "embedding_bag",
    "gather",
    "index_add",
    "index_select",
    "take_along_dim",
]
# A table of at most this number of bytes, whose gradient is wanted, is small where the index is tiny.
_MAX_TINY_TABLE_BYTES = 1 << 20
# The slices that `index_add` adds, which decide what it takes, are small up to this number of bytes.
_MAX_TINY_SOURCE_BYTES = 1 << 16
# What torch's functions raise for arguments that they do not take.
_ERRORS = (IndexError, RuntimeError, TypeError, ValueError, AttributeError, AssertionError)
_SELECT, _GATHER, _ADD = TABLE["index_select"], TABLE["gather"], TABLE["index_add"]
_BAGS, _LARGEST = TABLE["embedding_bag"], TABLE["embedding_bag_largest"]
_OF_TORCH = (torch.int32, torch.int64)
_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_SUMMED = (torch.float32, torch.float64, *NARROW)
# Torch's functions by a name of this module, which is found sooner: small calls take 2 microseconds.
_index_select, _gather, _index_add, _embedding = torch.index_select, torch.gather, torch.index_add, torch.embedding
_is_compiling = torch.compiler.is_dynamo_compiling
_is_exporting = getattr(torch.compiler, "is_exporting", lambda: True)


def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the slices of `input` along `dim` that `index` names, as `torch.index_select` does.

    Args:
        input: a tensor of any dtype and any strides; read in place.
        dim: in [-rank, rank-1].
        index: integers of any width in [0, size of dim - 1], of rank 1 or 0.
        out: a tensor for the result, of input's dtype.

    Returns:
        `out`, or a new contiguous tensor. Where `input` wants a gradient, slices are added in the order of `index`, so
        that its bytes are the same for any number of threads; narrow floats are added in float32 and rounded once.

    Raises:
        BoundsError: an index is outside; a negative one is, too, as in torch.
        IndexTypeError: `index` has no integers.
        InvalidGatherError: an argument is not a tensor that torch takes, or the shapes do not fit.
    """
    error = None
    try:
        if (
            not _is_compiling()
            and type(index) is Tensor
            and index.nbytes <= MAX_TINY_BYTES
            and (not input.requires_grad or (input.nbytes <= _MAX_TINY_TABLE_BYTES and input.dtype is torch.float32))
        ) or is_small(_SELECT, input, index, dim):
            if out is None:
                return _index_select(input, dim, index)
            return _index_select(input, dim, index, out=out)
    except _ERRORS as failure:
        error = failure
    check, by_torch = partial(_check_select, input, dim, index), partial(_select_by_torch, input, dim, index, out)
    return _call(_SELECT, by_torch, check, input, index, dim, out=out, error=error)


def _select_by_torch(input: Any, dim: Any, index: Any, out: Any) -> Any:
    return torch.index_select(input, dim, for_torch(index), out=out)


def _check_select(input: Any, dim: Any, index: Any) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    check_tensor(input, "input", "index_select")
    check_index(index, "index", "index_select")
    place = checked_dim(dim, input.dim())
    if index.dim() > 1:
        raise InvalidGatherError(
            f"index must have rank 1 or 0, got shape {tuple(index.shape)}; gathernest.torch.embedding takes any shape, "
            "and gathernest.torch.gather an index for each element"
        )
    picks = index.reshape(-1)
    if input.dim() == 0:
        if picks.shape[0] != 1:
            raise InvalidGatherError(f"index must have one element for a scalar input, got {picks.shape[0]}")
        return (input.reshape(1), 0, picks), ()
    return (input, place, picks), (*input.shape[:place], picks.shape[0], *input.shape[place + 1 :])


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None) -> Tensor:
    """Return elements of `input`, each by an index of its own along `dim`, as `torch.gather` does.

    Args:
        input, dim, out: as for `index_select`.
        index: integers of any width in [0, size of dim - 1], of input's rank and no larger than it off `dim`.
        sparse_grad: give `input` a sparse gradient: the elements as they are, made by torch itself.

    Returns:
        `out`, or a new contiguous tensor of the shape of `index`, with a gradient as that of `index_select`.

    Raises:
        GathernestError: as by `index_select`.
    """
    error = None
    try:
        # `torch.gather` reads wrong elements by an int32 index that was expanded.
        if type(index) is Tensor and not _is_compiling() and (index.is_contiguous() or index.dtype is torch.int64):
            is_tiny = index.nbytes <= MAX_TINY_BYTES
            if is_tiny or is_small(_GATHER, input, index, None):
                if out is None and not sparse_grad:
                    return _gather(input, dim, index)
                return _gather(input, dim, index, sparse_grad=sparse_grad, out=out)
    except _ERRORS as failure:
        error = failure
    by_torch = partial(_gather_by_torch, input, dim, index, sparse_grad, out)
    check = partial(_check_elements, "gather", "index", input, dim, index)
    return _call(_GATHER, by_torch, check, input, index, out=out, is_torchs=sparse_grad, error=error)


def _gather_by_torch(input: Any, dim: Any, index: Any, sparse_grad: bool, out: Any) -> Any:
    picks = for_torch(index) if index.is_contiguous() else index.to(torch.int64)
    return torch.gather(input, dim, picks, sparse_grad=sparse_grad, out=out)


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
        GathernestError: as by `index_select`.
    """
    error = None
    try:
        is_plain = dim is not None and out is None and is_small(_GATHER, input, indices, None) and not is_watched()
        if is_plain and _fit_off(input.shape, indices.shape, dim):
            is_taken = indices.dtype is torch.int64 or indices.is_contiguous()  # as in `gather`
            return _gather_from_end(input, dim, indices if is_taken else indices.to(torch.int64), None)
    except _ERRORS as failure:
        error = failure
    check, by_torch = (partial(each, input, indices, dim) for each in (_check_along, _along_by_torch))
    return _call(_GATHER, partial(by_torch, out), check, input, indices, out=out, error=error)


def _along_by_torch(input: Any, indices: Any, dim: Any, out: Any) -> Any:
    picks = indices.to(torch.int64) if indices.dtype in INTEGERS else indices
    if _is_compiling() or is_watched(input, indices):
        return torch.take_along_dim(input, picks, dim, out=out)
    (table, place, picks, _), shape = _check_along(input, picks, dim)
    found = _gather_from_end(table, place, picks, out)
    return found if tuple(found.shape) == shape else found.reshape(shape)


def _gather_from_end(table: Any, dim: Any, picks: Any, out: Any) -> Any:
    """Return `torch.gather` by indices that may count from the end; `torch.take_along_dim` takes those outside, too."""
    try:
        return _gather(table, dim, picks) if out is None else _gather(table, dim, picks, out=out)
    except RuntimeError as error:
        if "out of bounds" not in str(error):
            raise
    return _gather(table, dim, torch.where(picks < 0, picks + table.shape[dim], picks), out=out)


def _fit_off(sizes: Any, others: Any, dim: Any) -> bool:
    """Return whether two shapes are equal off a dimension."""
    return sizes[:dim] == others[:dim] and (dim == -1 or sizes[dim + 1 :] == others[dim + 1 :])


def _check_along(input: Any, indices: Any, dim: Any) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    check_tensor(input, "input", "take_along_dim")
    check_index(indices, "indices", "take_along_dim")
    if dim is None:
        table, picks, place = input.reshape(-1), indices.reshape(-1), 0
    else:
        table, picks, place = input, indices, checked_dim(dim, input.dim())
        if input.dim() != indices.dim():
            raise InvalidGatherError(
                f"input and indices must have the same rank, got {input.dim()} and {indices.dim()}; see "
                "Tensor.unsqueeze"
            )
        if input.dim():
            table, picks = _broadcast(input, indices, place)
    arguments, shape = _check_elements("take_along_dim", "indices", table, place, picks)
    return (*arguments, True), shape


def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1, out: Tensor | None = None
) -> Tensor:
    """Return `input` plus `alpha` times the slices of `source`, each added at its index, as `torch.index_add` does.

    `result[.., index[i], ..] = input[.., index[i], ..] + alpha * (source[.., i, ..] + ...)` along `dim`. A large call
    adds the slices of an index in their order, and then to `input`, where torch adds each to it: the last bit can
    differ, and the sign of a zero. The bytes are the same for any number of threads. float16 and bfloat16 are added in
    float32 and rounded once.

    Args:
        input: a tensor of integers, floats or complex numbers, which is not changed.
        dim: in [-rank, rank-1].
        index: integers of any width in [0, size of dim - 1], of rank 1 or 0.
        source: of the dtype and the shape of input, but along `dim` of the length of index.
        alpha: what the sums are multiplied by; a whole number that the dtype holds for integers.
        out: a tensor of input's dtype for the result, which may be input.

    Returns:
        `out`, or a new contiguous tensor. `input` and `source` have gradients, which can be derived again.

    Raises:
        GathernestError: as by `index_select`.
    """
    error = None
    try:
        if out is None and alpha == 1 and type(index) is type(source) is Tensor and not _is_compiling():
            is_tiny = source.nbytes <= _MAX_TINY_SOURCE_BYTES and source.dtype is torch.float32
            if is_tiny or (source.dtype in _ADD.torch_sums and is_small(_ADD, source, index, dim)):
                return _index_add(input, dim, index, source)
    except _ERRORS as failure:
        error = failure
    by_torch = partial(_add_by_torch, input, dim, index, source, alpha, out)
    # Torch cuts off the fraction of `alpha` for integers, and what they do not hold.
    is_wrong = alpha != 1 and isinstance(input, Tensor) and input.dtype in _WHOLE
    check = partial(_check_addition, input, dim, index, source, alpha)
    return _call(_ADD, by_torch, check, source, index, dim, input, out=out, is_wrong=is_wrong, error=error)


def _add_by_torch(input: Any, dim: Any, index: Any, source: Any, alpha: Any, out: Any) -> Any:
    return torch.index_add(input, dim, for_torch(index), source, alpha=alpha, out=out)


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
        weight: (rows, columns), a tensor of any dtype and any strides; read in place.
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
        InvalidGatherError: an argument is not a tensor that torch takes, `weight` is no matrix, or `padding_idx` is
            outside.
    """
    error = None
    try:
        if (
            not _is_compiling()
            and type(input) is Tensor
            and input.nbytes <= MAX_TINY_BYTES
            and (not weight.requires_grad or (weight.nbytes <= _MAX_TINY_TABLE_BYTES and weight.dtype is torch.float32))
        ) or is_small(_SELECT, weight, input, 0):
            if padding_idx is None and max_norm is None:
                return _embedding(weight, input, -1, scale_grad_by_freq, sparse)
            return functional.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    except _ERRORS as failure:
        error = failure
    rest = padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
    check, by_torch = (partial(each, input, weight, *rest) for each in (_check_embedding, _embedding_by_torch))
    try:
        return _call(_SELECT, by_torch, check, weight, input, 0, is_torchs=sparse, error=error)
    except BoundsError:
        raise outside(input, "input", 0, weight.shape[0]) from None


def _embedding_by_torch(input: Any, weight: Any, *rest: Any) -> Any:
    return functional.embedding(for_torch(input), weight, *rest)


def _check_embedding(
    input: Any, weight: Any, padding_idx: Any, max_norm: Any, norm_type: Any, scale_grad_by_freq: Any, sparse: Any
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    check_tensor(weight, "weight", "embedding")
    check_index(input, "input", "embedding")
    if scale_grad_by_freq and sparse:
        raise InvalidGatherError("scale_grad_by_freq=True has no sparse gradient, as in torch; pass sparse=False")
    padding = _check_table(weight, padding_idx)
    if max_norm is not None:
        _limit_norms(weight, input, max_norm, norm_type)
    return (weight, 0, input, padding, scale_grad_by_freq), (*input.shape, weight.shape[1])


class _Scriptable:
    """A module that `torch.jit.script` takes for the module of torch that it is made of."""

    def __prepare_scriptable__(self) -> Any:
        plain, kinds = copy.copy(self), {Embedding: torch.nn.Embedding, EmbeddingBag: torch.nn.EmbeddingBag}
        plain.__class__ = kinds.get(type(self), type(self))
        return plain


class Embedding(_Scriptable, torch.nn.Embedding):
    """`torch.nn.Embedding` by `gathernest.torch.embedding`: the same arguments, weights and `state_dict`.

    `module.__class__ = gathernest.torch.Embedding` turns an embedding that is there already into one of these.
    """

    def forward(self, input: Tensor) -> Tensor:
        return embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )


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
    """Return the sum, the mean or the maximum of the rows of each bag, as `torch.nn.functional.embedding_bag` does.

    Args:
        input: integers in [0, rows - 1], (bags, bag) or (indices).
        weight: (rows, columns), a tensor of floats of any strides; read in place.
        offsets: (bags), integers: where each bag begins in an input of rank 1.
        max_norm, norm_type: as for `embedding`.
        scale_grad_by_freq: divide the gradient of a row by the number of its look-ups.
        mode: "sum", "mean" or "max"; of equal largest elements, the first of the bag gets the gradient.
        sparse: give `weight` a sparse gradient, made by torch itself.
        per_sample_weights: of the shape of input and the dtype of weight: what each row is multiplied by before it is
            added, for "sum"; it has a gradient, too.
        include_last_offset: the last of `offsets` is the end of the last bag.
        padding_idx: a row that is not added, nor counted by a mean, and gets no gradient.

    Returns:
        A new contiguous tensor (bags, columns). Its gradient has the same bytes for any number of threads.

    Raises:
        GathernestError: as by `index_select`.
    """
    row = _LARGEST if mode == "max" else _BAGS
    error = None
    try:
        if not scale_grad_by_freq and is_small(row, weight, input, 0) and (offsets is None or _are_rising(offsets)):
            return functional.embedding_bag(
                *(input, weight, offsets, max_norm, norm_type, False, mode, sparse),
                *(per_sample_weights, include_last_offset, padding_idx),
            )
    except _ERRORS as failure:
        error = failure
    norm, rest = (max_norm, norm_type, scale_grad_by_freq), (mode, sparse, per_sample_weights, include_last_offset)
    given = input, weight, offsets, *norm, *rest, padding_idx
    check, by_torch = (partial(each, *given) for each in (_check_bags, _bags_by_torch))
    is_wrong = partial(_is_wrong_in_torch, offsets, scale_grad_by_freq and not sparse)
    options = {"is_torchs": sparse, "is_wrong": is_wrong, "sizes": row, "error": error}
    return _call(_BAGS, by_torch, check, weight, input, 0, offsets, per_sample_weights, **options)


def _bags_by_torch(input: Any, weight: Any, offsets: Any, *rest: Any) -> Any:
    picks, begins = for_torch(input), None if offsets is None else for_torch(offsets)
    if begins is not None and begins.dtype != picks.dtype:
        picks, begins = picks.to(torch.int64), begins.to(torch.int64)
    return functional.embedding_bag(picks, weight, begins, *rest)


def _check_bags(
    input: Any,
    weight: Any,
    offsets: Any,
    max_norm: Any,
    norm_type: Any,
    scale: Any,
    mode: Any,
    sparse: Any,
    factors: Any,
    has_last: Any,
    padding_idx: Any,
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    check_tensor(weight, "weight", "embedding_bag")
    check_index(input, "input", "embedding_bag")
    if offsets is not None:
        check_index(offsets, "offsets", "embedding_bag")
    if mode not in ("sum", "mean", "max"):
        raise InvalidGatherError(f'mode must be "sum", "mean" or "max", got {show(mode)}')
    if weight.dtype not in _SUMMED:
        raise InvalidGatherError(
            f"weight must be float16, bfloat16, float32 or float64, got {weight.dtype}; convert it, as by .float()"
        )
    padding = _check_table(weight, padding_idx)
    if input.dim() == 2 and offsets is not None:
        raise InvalidGatherError("offsets must be None for an input of rank 2, whose rows are the bags")
    if input.dim() == 1 and (offsets is None or offsets.dim() != 1):
        got = "None" if offsets is None else f"shape {tuple(offsets.shape)}"
        raise InvalidGatherError(f"offsets must have rank 1 for an input of rank 1, got {got}; see input.unsqueeze(0)")
    if input.dim() not in (1, 2):
        raise InvalidGatherError(f"input must have rank 1 or 2, got shape {tuple(input.shape)}")
    if factors is not None:
        _check_factors(factors, input, weight, mode)
    picks, begins = input, offsets
    if has_last and offsets is not None:
        end = _end_of_last_bag(input, offsets)
        picks, begins, factors = input[:end], offsets[:-1], None if factors is None else factors[:end]
    if max_norm is not None:
        _limit_norms(weight, input, max_norm, norm_type)
    bags = picks.shape[0] if begins is None else begins.shape[0]
    return (weight, picks, begins, factors, mode, padding, scale), (bags, weight.shape[1])


def _is_wrong_in_torch(offsets: Any, has_scale: bool, wants_grad: bool) -> bool:
    """Return whether torch would divide by the uses of another row, or read other memory by falling offsets."""
    return (has_scale and wants_grad) or not _are_rising(offsets)


def _are_rising(offsets: Any) -> bool:
    """Return whether no offset is smaller than the one before it."""
    if not isinstance(offsets, Tensor) or offsets.dim() != 1:
        return True
    numbers = offsets.tolist()
    return numbers == sorted(numbers)


class EmbeddingBag(_Scriptable, torch.nn.EmbeddingBag):
    """`torch.nn.EmbeddingBag` by `gathernest.torch.embedding_bag`: the same arguments and `state_dict`.

    `module.__class__ = gathernest.torch.EmbeddingBag` turns one that is there already into one of these.
    """

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        norm = self.max_norm, self.norm_type
        rest = self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx
        return embedding_bag(input, self.weight, offsets, *norm, self.scale_grad_by_freq, *rest)


def _call(
    row: Row,
    by_torch: Callable[[], Any],
    check: Callable[[], tuple[tuple[Any, ...], tuple[int, ...]]],
    table: Any,
    index: Any,
    dim: int | None = None,
    *others: Any,
    out: Any = None,
    is_torchs: bool = False,
    is_wrong: bool | Callable[[bool], bool] = False,
    sizes: Row | None = None,
    error: Exception | None = None,
) -> Any:
    """Return the result of a call by torch's own function, or by an operator.

    Args:
        row: of the operator.
        by_torch: calls torch's own function.
        check: returns the operator's arguments and the shape of the result; raises what is wrong with the call.
        table, index, dim, out: as `is_ours` takes them.
        others: further tensors, or None.
        is_torchs: torch's own function makes the gradient.
        is_wrong: whether torch's own function would do wrong; or a function that says so of whether a gradient is
            wanted.
        sizes: the row whose sizes decide, if that is another one.
        error: what torch's own function has raised for this call, if it ran already.
    """
    given = [each for each in others if each is not None]
    if _is_compiling():
        if _is_exporting() or out is not None or is_torchs:
            return by_torch()
    elif is_watched(table, index, *given, *(() if out is None else (out,))):
        return _name_what_is_no_tensor(by_torch, check, (table, index, *given))
    wants_grad = torch.is_grad_enabled() and (table.requires_grad or any(each.requires_grad for each in given))
    try:
        if error is None:
            is_ready = not (is_torchs and wants_grad) and (
                is_ours(sizes or row, table, index, dim, out, wants_grad)
                or (is_wrong(wants_grad) if callable(is_wrong) else is_wrong)
            )
            if not is_ready:
                return by_torch()
    except _ERRORS as failure:
        error = failure
    if error is not None and not (table.is_cpu and index.is_cpu):
        raise error
    arguments, shape = check()
    if out is not None:
        if error is None and out.numel() and tuple(out.shape) != shape:
            return by_torch()  # It warns, and resizes `out`.
        return _run_into(row, arguments, shape, table, out, wants_grad)
    if error is not None and wants_grad and index.dtype in _OF_TORCH and not isinstance(error, NotImplementedError):
        with torch.no_grad():
            row.forward(*arguments)  # This call says what is wrong, if its arguments are.
        raise error  # A hook of torch's own raised it.
    result = run(row.name, *arguments) if wants_grad or _is_compiling() else row.forward(*arguments)
    return result if tuple(result.shape) == shape else result.reshape(shape)


def _name_what_is_no_tensor(by_torch: Callable[[], Any], check: Callable[[], Any], tensors: tuple[Any, ...]) -> Any:
    """Return the result of torch's own function; raise our error where an argument is no tensor of any kind."""
    try:
        return by_torch()
    except _ERRORS:
        if all(isinstance(each, Tensor) for each in tensors):
            raise
        check()
        raise


def _run_into(
    row: Row, arguments: tuple[Any, ...], shape: tuple[int, ...], table: Any, out: Any, wants_grad: bool
) -> Any:
    """Run an operator into `out`; one without elements is resized."""
    check_tensor(out, "out", row.name)
    if wants_grad or (out.requires_grad and torch.is_grad_enabled()):
        raise InvalidGatherError(
            "out cannot be used where a gradient is wanted, as in torch; leave it away, or call within torch.no_grad()"
        )
    if out.dtype != table.dtype:
        raise InvalidGatherError(f"out must have dtype {table.dtype} as input has, got {out.dtype}")
    if tuple(out.shape) != shape:
        if out.numel():
            raise InvalidGatherError(f"out must have shape {shape}, or no elements, got shape {tuple(out.shape)}")
        out.resize_(shape)
    if out.is_neg() or out.is_conj():  # Its memory has other values.
        return out.copy_(row.forward(*arguments).reshape(shape))
    row.forward(*arguments, out=array_of(out if shape else out.reshape(1)))
    count_change(out)
    return out


def _end_of_last_bag(index: Any, offsets: Any) -> int:
    """Return the last of `offsets`, which ends the last bag; raises InvalidGatherError where it cannot."""
    before = [0, *offsets[-2:-1].tolist()]
    end = int(offsets[-1]) if offsets.shape[0] else None
    if end is None or not max(before) <= end <= len(index):
        must = f"end the last bag, at most at {len(index)}, the number of indices; got {'none' if end is None else end}"
        raise InvalidGatherError(f"with include_last_offset=True the last of offsets must {must}")
    return end


def _limit_norms(weight: Any, index: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are looked up down to a norm, in place."""
    with torch.no_grad():
        torch.embedding_renorm_(weight, for_torch(index).contiguous(), max_norm, norm_type)


def _check_table(weight: Any, padding_idx: Any) -> int:
    """Return the padding index from 0, or -1 without one; raises InvalidGatherError."""
    if weight.dim() != 2:
        raise InvalidGatherError(f"weight must be a matrix (rows, columns), got shape {tuple(weight.shape)}")
    if padding_idx is None:
        return -1
    rows, place = weight.shape[0], integer_argument(padding_idx, "padding_idx")
    if not -rows <= place < rows:
        raise InvalidGatherError(f"padding_idx {place} is out of range [{-rows}, {rows - 1}] for {rows} rows")
    return place % rows


def _check_factors(factors: Any, input: Any, weight: Any, mode: str) -> None:
    check_tensor(factors, "per_sample_weights", "embedding_bag")
    if mode != "sum":
        raise InvalidGatherError(f'per_sample_weights are for mode="sum", as in torch, got mode={mode!r}')
    if factors.shape != input.shape or factors.dtype != weight.dtype:
        raise InvalidGatherError(
            f"per_sample_weights must have the shape of input and the dtype of weight, {tuple(input.shape)} and "
            f"{weight.dtype}, got {tuple(factors.shape)} and {factors.dtype}"
        )


def _check_elements(
    function: str, name: str, input: Any, dim: Any, index: Any
) -> tuple[tuple[Any, Any, Any], tuple[int, ...]]:
    """Return the table, the dimension and the indices of elements, and the shape of the result.

    Scalars count as tensors of one element, and an index without elements has any rank.
    """
    check_tensor(input, "input", function)
    check_index(index, name, function)
    place, shape = checked_dim(dim, input.dim()), tuple(index.shape)
    table, picks = (tensor.reshape(1) if tensor.dim() == 0 else tensor for tensor in (input, index))
    if table.dim() != picks.dim():
        if index.numel():
            raise InvalidGatherError(
                f"input and index must have the same rank, got {input.dim()} and {index.dim()}; "
                "gathernest.torch.index_select takes whole slices"
            )
        picks = picks.new_empty((0,) * table.dim())
    for axis, (size, wanted) in enumerate(zip(table.shape, picks.shape, strict=True)):
        if axis != place and wanted > size and index.numel():
            raise InvalidGatherError(
                f"index must not be larger than input off dim {place}, got input of shape {tuple(input.shape)} and "
                f"index of shape {shape}"
            )
    return (table, place, picks), shape


def _broadcast(input: Any, indices: Any, dim: int) -> tuple[Any, Any]:
    """Return both with equal sizes off `dim`, as views; raises InvalidGatherError where they do not fit."""
    sizes = [tuple(tensor.shape) for tensor in (input, indices)]
    off = [(*shape[:dim], 1, *shape[dim + 1 :]) for shape in sizes]
    try:
        joint = torch.broadcast_shapes(*off)
    except RuntimeError:
        raise InvalidGatherError(
            f"input and indices must fit each other off dim {dim}, got shapes {sizes[0]} and {sizes[1]}"
        ) from None
    shapes = [(*joint[:dim], shape[dim], *joint[dim + 1 :]) for shape in sizes]
    return input.expand(shapes[0]), indices.expand(shapes[1])


def _check_addition(
    input: Any, dim: Any, index: Any, source: Any, alpha: Any
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    for tensor, name in ((input, "input"), (source, "source")):
        check_tensor(tensor, name, "index_add")
    check_index(index, "index", "index_add")
    dim = checked_dim(dim, input.dim())
    if index.dim() > 1:
        raise InvalidGatherError(f"index must have rank 1 or 0, got shape {tuple(index.shape)}")
    if input.dtype not in (*_WHOLE, *_SUMMED, torch.complex64, torch.complex128) or source.dtype != input.dtype:
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
    _check_alpha(input.dtype, alpha)
    whole = int(alpha) if input.dtype in _WHOLE and isinstance(alpha, float) else alpha
    table, slices = (tensor.reshape(1) if input.dim() == 0 else tensor for tensor in (input, source))
    return (table, dim, index.reshape(-1), slices, whole), shape


def _check_alpha(dtype: Any, alpha: Any) -> None:
    if isinstance(alpha, (str, bytes)) or alpha is None or (isinstance(alpha, int) and not -(2**63) <= alpha < 2**63):
        raise InvalidGatherError(f"alpha must be a number, a whole one of at most 64 bits, got {show(alpha)}")
    if isinstance(alpha, complex) and not dtype.is_complex:
        raise InvalidGatherError(f"alpha must be real for {dtype}, as in torch, got {show(alpha)}")
    if dtype in _WHOLE:
        most = torch.iinfo(dtype).max
        least = torch.iinfo(dtype).min or -most
        if isinstance(alpha, complex) or alpha % 1 or not least <= alpha <= most:
            raise InvalidGatherError(
                f"alpha must be a whole number from {least} to {most} for {dtype}, got {show(alpha)}"
            )
    elif isinstance(alpha, (float, complex)) and cmath.isfinite(alpha):
        most = torch.finfo(torch.float32 if dtype in NARROW else dtype).max
        if max(abs(alpha.real), abs(alpha.imag)) > most:
            raise InvalidGatherError(f"alpha must be at most {most} in size for {dtype}, got {show(alpha)}")
