"""Tensors of PyTorch as arrays on the same memory and back, which calls torch must see, and checks of tensors."""

from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.autograd import forward_ad  # pyright: ignore[reportMissingImports]

from ..ir.errors import BoundsError, IndexTypeError, InvalidGatherError

# Element types that torch and ml_dtypes have, and NumPy has not.
_NARROW = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
_NAMES = {getattr(torch, name): name for name in _NARROW if hasattr(torch, name)}
INTEGERS = {getattr(torch, f"{sign}int{bits}"): f"u{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_OF_NUMPY = {*INTEGERS, torch.bool, torch.half, torch.float, torch.double, torch.complex64, torch.complex128}
# The element types that arrays can have: the dtypes of NumPy and of ml_dtypes.
MOVABLE = frozenset((*_OF_NUMPY, *_NAMES))
_OF_WIDTH = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# Floats whose sums are added in float32 and rounded once.
NARROW = (torch.float16, torch.bfloat16)
PLAIN = (Tensor, torch.nn.Parameter)

_is_legacy_batched = getattr(torch._C, "_functorch").is_legacy_batchedtensor  # noqa: B009
_is_tracing = torch._C._is_tracing
# A version of torch that lacks one of these functions sees every call.
_has_dispatch_mode = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
_has_function_mode = getattr(torch._C, "_is_torch_function_mode_enabled", lambda: True)
_is_transforming = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)


def is_watched(*tensors: Any) -> bool:
    """Return whether torch must see a call: it is traced, transformed or has a mode, or a tensor is not a plain one."""
    if _is_tracing() or _has_dispatch_mode() or _has_function_mode() or _is_transforming():
        return True
    if forward_ad._current_level >= 0:
        return True
    return any(type(tensor) not in PLAIN or _is_legacy_batched(tensor) for tensor in tensors)


def array_of(tensor: Any) -> np.ndarray:
    """Return a dense CPU tensor as an array on the same memory, in the dtype of ml_dtypes where NumPy has none.

    An element type that neither has comes as integers of its width. Lazy conjugates and negations are computed.
    """
    tensor = tensor.detach()
    if tensor._is_zerotensor():
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    if tensor.dtype in _OF_NUMPY:
        return tensor.resolve_conj().resolve_neg().numpy()
    integers = tensor.resolve_conj().view(_OF_WIDTH[tensor.element_size()]).numpy()
    if tensor.dtype not in _NAMES:
        return integers
    import ml_dtypes

    return integers.view(getattr(ml_dtypes, _NAMES[tensor.dtype]))


def tensor_of(array: np.ndarray, dtype: Any) -> Any:
    """Return an array as a tensor of a dtype on the same memory."""
    if not array.size:  # The strides of an empty array are 0 in NumPy, and not in torch.
        return torch.empty(array.shape, dtype=dtype)
    if dtype in _OF_NUMPY:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"i{array.itemsize}")).view(dtype)


def unsigned(index: Any) -> np.ndarray:
    """Return indices as an array of unsigned numbers, in which a negative index is outside, as it is in torch."""
    return array_of(index).view(INTEGERS[index.dtype])


def for_torch(index: Any) -> Any:
    """Return indices as torch's own functions read them: of int64, or of int32 that is not expanded."""
    dtype = index.dtype
    if dtype is torch.int64 or dtype not in INTEGERS or (dtype is torch.int32 and index.is_contiguous()):
        return index
    return index.to(torch.int64)


def count_change(out: Any) -> None:
    """Tell torch that the values of a tensor change: what was saved of it for a gradient is not what it was."""
    if not out.is_inference():
        torch.autograd.graph.increment_version(out)


def what_is_wrong(tensor: Any, name: str) -> tuple[str, str] | None:
    """Return why a tensor is not dense in the memory of the CPU, and the way out; None where it is."""
    if tensor.is_nested:
        return "whose rows differ in length", f"{name}.to_padded_tensor(0)"
    if tensor.layout is not torch.strided:
        return f"of the layout {tensor.layout}", f"{name}.to_dense()"
    if tensor.is_quantized:
        return f"of quantized elements of {tensor.dtype}", f"{name}.int_repr(), its integers, or {name}.dequantize()"
    if not tensor.is_cpu:
        return f"on the device {tensor.device}", f"{name}.cpu()"
    return None


def check_tensor(tensor: Any, name: str, function: str, *, is_index: bool = False) -> None:
    """Check that an argument is a dense tensor in the memory of the CPU, and has integers where it is an index.

    Raises:
        InvalidGatherError, IndexTypeError: it is something else; the message has what it is, and what to pass.
    """
    if not isinstance(tensor, Tensor):
        made = "torch.from_numpy" if isinstance(tensor, np.ndarray) else "torch.as_tensor"
        raise InvalidGatherError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}; pass {made}({name})")
    wrong = what_is_wrong(tensor, name)
    if wrong is not None:
        raise InvalidGatherError(
            f"{name} of gathernest.torch.{function} must be a dense tensor on the CPU, got one {wrong[0]}; pass "
            f"{wrong[1]}"
        )
    dtype = tensor.dtype
    if is_index and dtype not in INTEGERS:
        is_number = dtype.is_floating_point or dtype.is_complex or dtype is torch.bool
        what = "integers" if is_number else "integers of 8 to 64 bits"
        way = f"for a mask, pass {name}.nonzero().squeeze(1)" if dtype is torch.bool else f"pass {name}.long()"
        raise IndexTypeError(f"{name} must be a tensor of {what}, got {dtype}; {way}")


def find_outside(index: Any, name: str, dim: int, size: int, least: int = 0) -> BoundsError | None:
    """Return the error of the first index that is outside [least, size); None where there is none."""
    numbers = index.to(torch.int64)
    places = ((numbers < least) | (numbers >= size)).nonzero()
    if not len(places):
        return None
    at = tuple(places[0].tolist())
    value = index[at].item()
    hint = f"; torch's functions count no index from the end: pass {name} % {size}" if -size <= value < 0 else ""
    return BoundsError(
        f"index {value} at position {at} of {name} is out of range [{least}, {size - 1}] for dimension {dim} of size "
        f"{size}{hint}"
    )
