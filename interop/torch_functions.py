"""The functions and modules of `gathernest.torch`, by the names and with the arguments of torch's own.

Small calls, calls that torch must see, and unusual arguments run torch's own function; other calls run an operator of
the table. Where torch's function fails, `_explain` says what is wrong with the arguments.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from ..ir.errors import BoundsError, GathernestError, InvalidGatherError, show
from ..ir.semantics import integer_argument
from .torch_operators import TABLE, Row, gathered_shape, is_ours, is_small, run
from .torch_tensors import (
    INTEGERS,
    NARROW,
    array_of,
    check_tensor,
    count_change,
    find_outside,
    for_torch,
    is_watched,
    what_is_wrong,
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
# An index of at most this number of bytes is small without a look at the sizes of the call, which would take a quarter
# of the 2 microseconds of torch's own function.
_MAX_TINY_BYTES = 8192
# An index for each element is tiny up to this number of bytes.
_MAX_TINY_PICKS_BYTES = 1 << 15
# Compare offsets of more bytes than this number as an array, which takes 1.5 microseconds; a list takes 16 nanoseconds
# for each offset.
_MAX_LISTED_BYTES = 512
# The slices that `index_add` adds, which decide what it takes, are small up to this number of bytes.
_MAX_TINY_SOURCE_BYTES = 1 << 16
# What torch's functions raise for arguments that they do not take.
_ERRORS = (IndexError, RuntimeError, TypeError, ValueError, AttributeError, AssertionError, OverflowError)
_GATHER, _ADD, _BAGS = TABLE["gather"], TABLE["index_add"], TABLE["embedding_bag"]
# Slices: torch adds narrow floats less exactly than it adds elements.
_SELECT = replace(_GATHER, min_elements=1 << 22, torch_sums=_BAGS.torch_sums)
_MAXIMA = replace(_BAGS, min_elements=1 << 16, min_grad_elements=1 << 22)
# Torch stores the rows of float64 before it adds them, and takes 2 to 3 times as long.
_WIDE_BAGS = replace(_BAGS, min_elements=1 << 18)
# Torch divides a gradient that is scaled by frequency by the look-ups of another row.
_SCALED_BAGS = replace(_BAGS, min_grad_elements=0)
_OF_TORCH = (torch.int32, torch.int64)
_SUMMED = (torch.float32, torch.float64, *NARROW)
_ADDED = (*_SUMMED, torch.complex64, torch.complex128, torch.uint8, torch.int8, torch.int16, *_OF_TORCH)
# Torch's functions by a name of this module, which is found sooner: small calls take 2 microseconds.
_index_select, _gather, _index_add, _embedding = torch.index_select, torch.gather, torch.index_add, torch.embedding
_embedding_bag, _int64, _float32 = torch.embedding_bag, torch.int64, torch.float32
# The modes of bags by the number that `torch.embedding_bag` knows them by.
_MODES = {"sum": 0, "mean": 1, "max": 2}
_is_compiling = torch.compiler.is_dynamo_compiling
_is_exporting = getattr(torch.compiler, "is_exporting", lambda: True)
# The arguments of an operator; None where torch's own function is to run.
Prepared = tuple[Any, ...] | None


def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the slices of `input` along `dim` that `index` names, as `torch.index_select` does.

    Indices have any integer dtype. Where `input` wants a gradient, slices are added in the order of `index`, so that
    its bytes are the same for any number of threads; narrow floats are added in float32 and rounded once.

    Raises:
        BoundsError: an index is outside; a negative one is, too, as in torch.
        IndexTypeError: `index` has no integers.
        InvalidGatherError: an argument is not a tensor that torch takes, or the shapes do not fit.
    """
    error = None
    try:
        is_tiny = type(index) is Tensor and not _is_compiling() and index.nbytes <= _MAX_TINY_BYTES
        if (is_tiny and not input.requires_grad) or is_small(_SELECT, input, index, dim):
            return _index_select(input, dim, index) if out is None else _index_select(input, dim, index, out=out)
    except _ERRORS as failure:
        error = failure
    given, tensors = (input, dim, index), {"input": input, "index": index}
    return _call("index_select", _SELECT, _index_select, given, _prepare_select, tensors, dim, out, error=error)


def _prepare_select(input: Any, dim: Any, index: Any) -> Prepared:
    place = _place(dim, input)
    return None if place is None or index.dim() != 1 else (input, place, index)


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None) -> Tensor:
    """Return elements of `input`, each by an index of its own along `dim`, as `torch.gather` does.

    Indices, gradients and errors are as for `index_select`; torch itself makes a sparse gradient.
    """
    error = None
    try:
        # `torch.gather` reads wrong elements by an int32 index that was expanded.
        if (
            type(index) is Tensor
            and not _is_compiling()
            and (index.dtype is _int64 or index.is_contiguous())
            and (index.nbytes <= _MAX_TINY_PICKS_BYTES or is_small(_row_of_gather(index), input, index, None))
        ):
            if out is None and not sparse_grad:
                return _gather(input, dim, index)
            return _gather(input, dim, index, sparse_grad=sparse_grad, out=out)
    except _ERRORS as failure:
        error = failure
    of_torch, given, tensors = partial(_gather, sparse_grad=sparse_grad), (input, dim, index), {"input": input}
    row, options = _row_of_gather(index), {"is_torchs": sparse_grad, "error": error}
    return _call("gather", row, of_torch, given, _prepare_elements, tensors | {"index": index}, dim, out, **options)


def _row_of_gather(index: Any) -> Row:
    """Return the row whose sizes decide: indices that are expanded off the dimension move whole slices."""
    is_plain = not isinstance(index, Tensor) or index.layout is not torch.strided or index.is_contiguous()
    return _GATHER if is_plain else _SELECT


def _prepare_elements(input: Any, dim: Any, index: Any, *rest: Any) -> Prepared:
    place, pairs = _place(dim, input), list(zip(index.shape, input.shape, strict=False))
    if place is None or input.dim() != index.dim():
        return None
    fits = all(wanted <= size for axis, (wanted, size) in enumerate(pairs) if axis != place)
    return (input, place, index, *rest) if fits else None


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return elements of `input`, each by an index of its own along `dim`, as `torch.take_along_dim` does.

    Indices are in [-size of dim, size of dim - 1] and of any integer dtype. Both tensors are broadcast against each
    other off `dim`, without a copy. Gradients and errors are as for `index_select`.
    """
    error = None
    try:
        if dim is not None and out is None and is_small(_GATHER, input, indices, None) and not is_watched():
            sizes, others = input.shape, indices.shape
            if sizes[:dim] == others[:dim] and (dim == -1 or sizes[dim + 1 :] == others[dim + 1 :]):
                return _gather_from_end(input, dim, for_torch(indices), None)
    except _ERRORS as failure:
        error = failure
    given, tensors = (input, indices, dim), {"input": input, "indices": indices}
    return _call("take_along_dim", _GATHER, _along_by_torch, given, _prepare_along, tensors, dim, out, error=error)


def _along_by_torch(input: Any, indices: Any, dim: Any, out: Any = None) -> Any:
    picks = indices.to(torch.int64) if indices.dtype in INTEGERS else indices
    if _is_compiling() or is_watched(input, indices) or (given := _fit(input, picks, dim)) is None:
        return torch.take_along_dim(input, picks, dim, out=out)
    return _gather_from_end(*given, out)


def _prepare_along(input: Any, indices: Any, dim: Any) -> Prepared:
    given = _fit(input, indices, dim)
    return None if given is None else _prepare_elements(*given, True)


def _fit(input: Any, indices: Any, dim: Any) -> tuple[Any, Any, Any] | None:
    """Return the table, the dimension and the indices, with equal sizes off it; None where they do not fit."""
    if dim is None:
        return input.reshape(-1), 0, indices.reshape(-1)
    place, sizes = _place(dim, input), (tuple(input.shape), tuple(indices.shape))
    if place is None or input.dim() != indices.dim():
        return None
    try:
        joint = torch.broadcast_shapes(*((*shape[:place], 1, *shape[place + 1 :]) for shape in sizes))
    except RuntimeError:
        return None
    shapes = [(*joint[:place], shape[place], *joint[place + 1 :]) for shape in sizes]
    return input.expand(shapes[0]), place, indices.expand(shapes[1])


def _gather_from_end(table: Any, dim: Any, picks: Any, out: Any) -> Any:
    """Return `torch.gather` by indices that may count from the end; `torch.take_along_dim` takes those outside, too."""
    try:
        return _gather(table, dim, picks) if out is None else _gather(table, dim, picks, out=out)
    except RuntimeError as error:
        if "out of bounds" not in str(error):
            raise
    return _gather(table, dim, torch.where(picks < 0, picks + table.shape[dim], picks), out=out)


def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1, out: Tensor | None = None
) -> Tensor:
    """Return `input` plus `alpha` times the slices of `source`, each added at its index, as `torch.index_add` does.

    A large call adds the slices of an index in their order, and then to `input`, where torch adds each to it: the last
    bit can differ, and the sign of a zero. The bytes are the same for any number of threads; narrow floats are added in
    float32 and rounded once. `alpha` is a whole number that the dtype holds for integers. Errors are as for
    `index_select`.
    """
    error = None
    try:
        if out is None and alpha == 1 and type(index) is type(source) is Tensor and not _is_compiling():
            is_tiny = source.nbytes <= _MAX_TINY_SOURCE_BYTES and source.dtype is _float32
            if is_tiny or (source.dtype in _ADD.torch_sums and is_small(_ADD, source, index, dim)):
                return _index_add(input, dim, index, source)
    except _ERRORS as failure:
        error = failure
    if alpha != 1 and isinstance(input, Tensor) and input.dtype in INTEGERS:
        # Torch cuts off the fraction of `alpha`, and what the dtype does not hold.
        given_alpha: Any = alpha
        alpha = given_alpha.item() if getattr(given_alpha, "ndim", None) == 0 else alpha
        most = torch.iinfo(input.dtype).max
        least = torch.iinfo(input.dtype).min or -most
        if not isinstance(alpha, (int, float)) or alpha % 1 or not least <= alpha <= most:
            raise InvalidGatherError(
                f"alpha must be a whole number from {least} to {most} for {input.dtype}, got {show(alpha)}"
            )
        alpha = int(alpha)
    is_real = isinstance(input, Tensor) and (input.is_floating_point() or input.is_complex())
    if is_real and isinstance(alpha, (int, float)) and torch.finfo(input.dtype).max < abs(alpha) < float("inf"):
        raise InvalidGatherError(f"alpha must be finite in {input.dtype}, got {show(alpha)}")
    of_torch, prepare = partial(_index_add, alpha=alpha), partial(_prepare_addition, alpha=alpha)
    given, tensors = (input, dim, index, source), {"source": source, "index": index, "input": input}
    return _call("index_add", _ADD, of_torch, given, prepare, tensors, dim, out, error=error)


def _prepare_addition(input: Any, dim: Any, index: Any, source: Any, alpha: Any) -> Prepared:
    place = _place(dim, input)
    if place is None or index.dim() != 1 or input.dtype not in _ADDED or source.dtype != input.dtype:
        return None
    shape = tuple(input.shape)
    fits = tuple(source.shape) == (*shape[:place], index.shape[0], *shape[place + 1 :])
    is_number = isinstance(alpha, (int, float)) or (isinstance(alpha, complex) and input.is_complex())
    return (input, place, index, source, alpha) if fits and is_number else None


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

    Indices, gradients and errors are as for `index_select`; torch itself makes a sparse gradient, and scales rows down
    to `max_norm`.
    """
    error = None
    try:
        is_tiny = type(input) is Tensor and not _is_compiling() and input.nbytes <= _MAX_TINY_BYTES
        if (is_tiny and not weight.requires_grad) or is_small(_SELECT, weight, input, 0):
            if padding_idx is None and max_norm is None:
                return _embedding(weight, input, -1, scale_grad_by_freq, sparse)
            return functional.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    except _ERRORS as failure:
        error = failure
    padding_idx = padding_idx if padding_idx is None else integer_argument(padding_idx, "padding_idx")
    given = input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
    options: dict[str, Any] = {"is_torchs": sparse, "error": error}
    tensors = {"weight": weight, "input": input}
    return _call("embedding", _SELECT, functional.embedding, given, _prepare_rows, tensors, 0, **options)


def _prepare_rows(input: Any, weight: Any, padding_idx: Any, norm: Any, norm_type: Any, scale: Any, _: Any) -> Prepared:
    padding = _padding_row(weight, padding_idx)
    if padding is None:
        return None
    _limit_norms(weight, input, norm, norm_type)
    return weight, 0, input.reshape(-1), False, padding, scale


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
        norm = self.max_norm, self.norm_type
        return embedding(input, self.weight, self.padding_idx, *norm, self.scale_grad_by_freq, self.sparse)


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

    Indices, gradients and errors are as for `index_select`; torch itself makes a sparse gradient, and scales rows down
    to `max_norm`. Offsets must not fall: torch reads other memory by such ones.
    """
    error, is_risky = None, include_last_offset and (mode == "max" or padding_idx is not None)
    try:
        is_tiny = type(input) is Tensor and not _is_compiling() and input.nbytes <= _MAX_TINY_BYTES
        is_tiny = is_tiny and mode != "max" and not weight.requires_grad
        is_tiny = is_tiny or is_small(_row_of_bags(weight, mode), weight, input, 0)
        if is_tiny and not scale_grad_by_freq and (offsets is None or _are_rising(offsets, is_risky)):
            is_plain = max_norm is None is per_sample_weights and not sparse and mode in _MODES
            if is_plain and offsets is not None and input.dim() == 1:
                # The function of `functional` takes 1 to 3 microseconds more for the same operator.
                rest = False, _MODES[mode], False, None, include_last_offset, padding_idx
                return _embedding_bag(weight, input, offsets, *rest)[0]
            return functional.embedding_bag(
                *(input, weight, offsets, max_norm, norm_type, False, mode, sparse),
                *(per_sample_weights, include_last_offset, padding_idx),
            )
    except _ERRORS as failure:
        error = failure
    padding_idx = padding_idx if padding_idx is None else integer_argument(padding_idx, "padding_idx")
    tensors = {"weight": weight, "input": input, "offsets": offsets, "per_sample_weights": per_sample_weights}
    if not _is_compiling() and not is_watched(offsets) and not _are_rising(offsets, is_risky):
        raise InvalidGatherError(
            "offsets must not fall, as each bag begins where the one before it ends, and have one bag or more"
        )
    norm, rest = (max_norm, norm_type, scale_grad_by_freq), (per_sample_weights, include_last_offset, padding_idx)
    given = input, weight, offsets, *norm, mode, sparse, *rest
    row = _row_of_bags(weight, mode, scale_grad_by_freq)
    options: dict[str, Any] = {"is_torchs": sparse, "error": error}
    return _call("embedding_bag", row, _bags_by_torch, given, _prepare_bags, tensors, 0, **options)


def _row_of_bags(weight: Any, mode: Any, is_scaled: bool = False) -> Row:
    if mode == "max" or is_scaled:
        return _MAXIMA if mode == "max" else _SCALED_BAGS
    return _WIDE_BAGS if isinstance(weight, Tensor) and weight.dtype is torch.float64 else _BAGS


def _bags_by_torch(input: Any, weight: Any, offsets: Any, *rest: Any) -> Any:
    picks, begins = for_torch(input), None if offsets is None else for_torch(offsets)
    if begins is not None and begins.dtype != picks.dtype:
        picks, begins = picks.to(torch.int64), begins.to(torch.int64)
    return functional.embedding_bag(picks, weight, begins, *rest)


def _prepare_bags(
    input: Any, weight: Any, offsets: Any, max_norm: Any, norm_type: Any, scale: Any, mode: Any, sparse: Any,
    factors: Any, has_last: Any, padding_idx: Any,
) -> Prepared:  # fmt: skip
    padding, is_matrix = _padding_row(weight, padding_idx), input.dim() == 2 and offsets is None
    is_vector = input.dim() == 1 and offsets is not None and offsets.dim() == 1 and offsets.dtype in INTEGERS
    if padding is None or weight.dtype not in _SUMMED or mode not in ("sum", "mean", "max"):
        return None
    if not (is_matrix or is_vector):
        return None
    if factors is not None and (mode != "sum" or factors.shape != input.shape or factors.dtype != weight.dtype):
        return None
    if has_last and offsets is not None:
        end = int(offsets[-1]) if offsets.shape[0] else -1
        if not 0 <= end <= len(input):
            return None
        input, offsets, factors = input[:end], offsets[:-1], None if factors is None else factors[:end]
    _limit_norms(weight, input, max_norm, norm_type)
    return weight, input, offsets, factors, mode, padding, scale


def _are_rising(offsets: Any, is_risky: bool) -> bool:
    """Return whether no offset is smaller than the one before it; torch's own function says what is no vector.

    Where the last offset ends a bag, there are two: with one, torch ends the process if bags are `is_risky`.
    """
    try:
        if offsets.dim() != 1:
            return True
        if is_risky and len(offsets) == 1:
            return False
        if offsets.nbytes <= _MAX_LISTED_BYTES:
            listed = offsets.tolist()
            return listed == sorted(listed)
        numbers = offsets.numpy()
        return not np.count_nonzero(numbers[1:] < numbers[:-1])
    except (AttributeError, RuntimeError, TypeError):
        return True


class EmbeddingBag(_Scriptable, torch.nn.EmbeddingBag):
    """`torch.nn.EmbeddingBag` by `gathernest.torch.embedding_bag`: the same arguments and `state_dict`.

    `module.__class__ = gathernest.torch.EmbeddingBag` turns one that is there already into one of these.
    """

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        norm = self.max_norm, self.norm_type
        rest = self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx
        return embedding_bag(input, self.weight, offsets, *norm, self.scale_grad_by_freq, *rest)


def _call(
    function: str,
    row: Row,
    of_torch: Callable[..., Any],
    arguments: tuple[Any, ...],
    prepare: Callable[..., Prepared],
    tensors: dict[str, Any],
    dim: Any,
    out: Any = None,
    *,
    is_torchs: bool = False,
    error: Exception | None = None,
) -> Any:
    """Return the result of a call by torch's own function, or by an operator.

    Args:
        of_torch, arguments: torch's own function, and its arguments without `out`.
        prepare: returns the arguments of the operator, or None where torch's own function is to run.
        row: of the operator, with the sizes from which it runs.
        tensors: by their names the table, the indices, and further tensors or None.
        is_torchs: torch's own function makes the gradient.
        error: what torch's own function has raised for this call, if it ran already.
    """
    table, index, *others = tensors.values()
    given = [each for each in others if each is not None]

    def by_torch() -> Any:
        picked = [for_torch(each) if each is index else each for each in arguments]
        return of_torch(*picked) if out is None else of_torch(*picked, out=out)

    explain = partial(_explain, function, by_torch, tensors, dim)
    if _is_compiling():
        if _is_exporting() or out is not None or is_torchs:
            return by_torch()
    elif is_watched(table, index, *given, *(() if out is None else (out,))):
        try:
            return by_torch()
        except _ERRORS as failure:
            if all(isinstance(each, Tensor) for each in (table, index, *given)):
                raise
            raise explain(failure, False) from failure
    wants_grad = torch.is_grad_enabled() and (table.requires_grad or any(each.requires_grad for each in given))
    prepared: Prepared = None
    try:
        if error is not None and index.dtype in _OF_TORCH:
            raise error
        of_slices = None if function in ("gather", "take_along_dim") else dim
        if not (is_torchs and wants_grad) and is_ours(row, table, index, of_slices, out, wants_grad):
            prepared = prepare(*arguments)
        if prepared is None or (out is not None and out.shape != _shape_of(row, prepared)):
            return by_torch()
    except GathernestError:
        raise
    except _ERRORS as failure:
        # An operator takes dtypes for which torch has no kernel, and writes over what it reads.
        fits = isinstance(failure, NotImplementedError) if out is None else out.dtype is table.dtype and not wants_grad
        fits = fits and index.dtype in INTEGERS and what_is_wrong(table, "") is None
        prepared = prepare(*arguments) if fits else None
        if prepared is None or (out is not None and (out.shape != _shape_of(row, prepared) or out.requires_grad)):
            raise explain(failure, wants_grad and out is None) from failure
    try:
        if out is not None:
            row.forward(*prepared, out=array_of(out))
            count_change(out)
            return out
        found = run(row.name, *prepared) if wants_grad or _is_compiling() else row.forward(*prepared)
        return found.reshape(*index.shape, table.shape[1]) if function == "embedding" else found
    except BoundsError as failure:
        raise explain(failure, False) from None


def _shape_of(row: Row, arguments: tuple[Any, ...]) -> Any:
    """Return the shape of the result of a gather or of an addition."""
    return gathered_shape(*arguments) if row.name == "gather" else arguments[0].shape


def _explain(
    function: str, by_torch: Callable[[], Any], tensors: dict[str, Any], dim: Any, error: Exception, wants_grad: bool
) -> Exception:
    """Return the error of a call that torch's own function rejects; `error` itself where a hook of torch's raised it.

    Raises:
        InvalidGatherError, IndexTypeError: an argument is not a tensor that torch's function takes.
    """
    (name, table), (index_name, index), *_ = tensors.items()
    if any(isinstance(each, Tensor) and not each.is_cpu for each in tensors.values()):
        return error
    for key, value in tensors.items():
        if value is not None or key in (name, index_name):
            check_tensor(value, key, function, is_index=key in (index_name, "offsets"))
    table = tensors.get("input", table) if function == "index_add" else table
    place = _place(0 if dim is None else dim, table)
    if place is None:  # our look at the sizes may have failed before torch's own function ran
        try:
            by_torch()
        except _ERRORS as failure:
            error = failure
    reason = str(error).partition("\n")[0]
    is_outside = isinstance(error, (IndexError, BoundsError))
    if place is not None and (is_outside or any(text in reason for text in ("out of bounds", "idx", "valid range"))):
        size = table.numel() if dim is None else table.shape[place]
        found = find_outside(index, index_name, place, size, -size if function == "take_along_dim" else 0)
        if found is not None:
            return found
    if wants_grad:
        try:
            with torch.no_grad():
                by_torch()
            return error
        except _ERRORS:
            pass
    return InvalidGatherError(f"torch's own function rejects this call of gathernest.torch.{function}: {reason}")


def _place(dim: Any, table: Any) -> int | None:
    """Return a dimension from 0; None where the table has none of that number."""
    is_integer, rank = hasattr(dim, "__index__") and not isinstance(dim, bool), table.dim()
    return int(dim) % rank if is_integer and -rank <= dim < rank else None


def _padding_row(weight: Any, padding_idx: int | None) -> int | None:
    """Return the padding index from 0, or -1 without one; None where the table is no matrix, or has no such row."""
    rows = weight.shape[0] if weight.dim() == 2 else 0
    if padding_idx is None and weight.dim() == 2:
        return -1
    return padding_idx % rows if padding_idx is not None and -rows <= padding_idx < rows else None


def _limit_norms(weight: Any, index: Any, max_norm: float | None, norm_type: float) -> None:
    """Scale the rows that are looked up down to a norm, in place; None leaves them."""
    if max_norm is not None:
        with torch.no_grad():
            torch.embedding_renorm_(weight, for_torch(index).contiguous(), max_norm, norm_type)
