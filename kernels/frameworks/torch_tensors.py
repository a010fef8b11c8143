"""Tensors of PyTorch as arrays on the same memory and back, and the errors of tensors that have no such array."""

import functools
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.autograd import forward_ad  # pyright: ignore[reportMissingImports]
from torch.overrides import has_torch_function  # pyright: ignore[reportMissingImports]

from ...ir.errors import BoundsError, IndexTypeError, InvalidGatherError, show

# Dtypes that torch and ml_dtypes have, and NumPy has not.
_NARROW = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
ML_DTYPES = {getattr(torch, name): name for name in _NARROW if hasattr(torch, name)}
_WHOLE = [getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
OF_NUMPY = {*_WHOLE, torch.bool, torch.half, torch.float, torch.double, torch.complex64, torch.complex128}
OF_TORCH = torch.int64, torch.int32  # of indices that torch's own functions read
_OF_WIDTH = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
UNSIGNED = {
    dtype: np.dtype(str(dtype).rpartition(".")[2].replace("uint", "int").replace("int", "uint")) for dtype in _WHOLE
}

PLAIN, _NO_DISPATCH = (Tensor, torch.nn.Parameter), Tensor.__torch_dispatch__
_functorch = torch._C._functorch

is_compiling = torch.compiler.is_dynamo_compiling
is_grad_enabled = torch.is_grad_enabled
is_tracing = torch._C._is_tracing
# Where a version of torch lacks one of these, every call takes the way through torch's dispatcher.
dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
is_transforming = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
has_function_mode = getattr(torch._C, "_is_torch_function_mode_enabled", lambda: True)


def is_traced() -> bool:
    """Return whether torch records calls rather than running them: it compiles, traces, or has a dispatch mode."""
    return is_compiling() or dispatch_modes() > 0 or is_tracing()


def is_transformed() -> bool:
    """Return whether a transform of `torch.func` or a gradient in forward mode is active."""
    return forward_ad._current_level >= 0 or is_transforming()


def is_dispatched(*tensors: Any) -> bool:
    """Return whether only torch's dispatcher knows what a call means: for a tensor's type, or for a transform.

    Such are tensors with a `__torch_dispatch__`, those of the old `vmap` by which `is_grads_batched` runs, and all
    tensors where `torch.func.functionalize` is active.
    """
    if is_transforming() and _functorch.peek_interpreter_stack().key() == _functorch.TransformType.Functionalize:
        return True
    for tensor in tensors:
        if type(tensor) not in PLAIN and isinstance(tensor, Tensor) and tensor.__torch_dispatch__ is not _NO_DISPATCH:
            return True
        if isinstance(tensor, Tensor) and _functorch.is_legacy_batchedtensor(tensor):
            return True
    return False


def must_see(*tensors: Any) -> bool:
    """Return whether torch must see a call: it is traced or transformed, or only its dispatcher knows what it means."""
    return is_traced() or is_transformed() or is_dispatched(*tensors)


def is_overridden(*tensors: Any) -> bool:
    """Return whether the type of a tensor has its own way of calls, `__torch_function__`."""
    return not is_traced() and has_torch_function(tensors)


def array_of(tensor: Any) -> np.ndarray:
    """Return a tensor as an array on the same memory, in the dtype of ml_dtypes where NumPy has none.

    An element type that neither has comes as integers of its width. Lazy conjugates and negations are computed.
    """
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor._is_zerotensor():  # a tangent of zeros, which has no memory
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    if tensor.dtype not in OF_NUMPY:
        integers = tensor.resolve_conj().view(_OF_WIDTH[tensor.element_size()]).numpy()
        name = ML_DTYPES.get(tensor.dtype)
        return integers if name is None else integers.view(ml_dtype(name))
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor.numpy()


@functools.cache
def ml_dtype(name: str) -> np.dtype:
    """Return a dtype of ml_dtypes by its name."""
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def tensor_of(array: np.ndarray, dtype: Any) -> Any:
    """Return an array as a tensor of a dtype on the same memory."""
    if not array.size:  # NumPy's strides are 0 then, torch's are not
        return torch.empty(array.shape, dtype=dtype)
    if dtype in OF_NUMPY:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"i{array.itemsize}")).view(dtype)


def unsigned(index: Any) -> np.ndarray:
    """Return indices as an array of unsigned numbers: a negative one, which torch does not allow, is then outside."""
    return array_of(index).view(UNSIGNED[index.dtype])


def for_torch(index: Any) -> Any:
    """Return indices for torch's own functions, which read int32 and int64."""
    return index if index.dtype in OF_TORCH else index.to(torch.int64)


def check_tensor(tensor: Any, name: str, function: str) -> None:
    """Check that an argument is a dense tensor in the memory of the CPU.

    Raises:
        InvalidGatherError: it is something else; the message has what it is, and what to pass.
    """
    is_dense = isinstance(tensor, Tensor) and tensor.is_cpu and tensor.layout is torch.strided
    if is_dense and not tensor.is_nested and not tensor.is_quantized:
        return
    if not isinstance(tensor, Tensor):
        made = "torch.from_numpy" if isinstance(tensor, np.ndarray) else "torch.as_tensor"
        raise InvalidGatherError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}; pass {made}({name})")
    wanted = f"{name} of gathernest.torch.{function} must be a dense tensor on the CPU, got "
    device, layout = tensor.device.type, tensor.layout
    if device == "meta":
        raise InvalidGatherError(
            f"{wanted}one on the device meta, which has no elements; pass a tensor with elements, such as "
            f"torch.zeros({name}.shape, dtype={name}.dtype)"
        )
    if device != "cpu":
        raise InvalidGatherError(
            f"{wanted}one on {tensor.device}; pass {name}.cpu(), or call torch's own function on that device"
        )
    if tensor.is_nested:
        raise InvalidGatherError(f"{wanted}a nested tensor; pass {name}.to_padded_tensor(0)")
    if layout is not torch.strided:
        raise InvalidGatherError(f"{wanted}one of layout {layout}; pass {name}.to_dense()")
    if tensor.is_quantized:
        raise InvalidGatherError(
            f"{wanted}a quantized one of {tensor.dtype}; pass {name}.int_repr(), its integers, or {name}.dequantize()"
        )


def check_index(index: Any, name: str, function: str) -> None:
    """Check that an argument is a dense tensor of integers; raises IndexTypeError, or as `check_tensor` does."""
    check_tensor(index, name, function)
    if index.dtype is torch.bool:
        raise IndexTypeError(
            f"{name} must be a tensor of integers, got torch.bool; for a mask, pass {name}.nonzero().squeeze(1)"
        )
    if index.dtype not in UNSIGNED:
        what = "integers" if index.dtype.is_floating_point or index.dtype.is_complex else "integers of 8 to 64 bits"
        raise IndexTypeError(f"{name} must be a tensor of {what}, got {index.dtype}; pass {name}.long()")


def checked_dim(dim: Any, rank: int) -> int:
    """Return a dimension in [0, rank), that of a scalar being 0; raises InvalidGatherError."""
    size = max(rank, 1)
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise InvalidGatherError(f"dim must be an int, got {show(dim)}")
    if not -size <= dim < size:
        raise InvalidGatherError(f"dim {int(dim)} is out of range [{-size}, {size - 1}] for input of rank {rank}")
    return int(dim) % size


def outside(index: Any, name: str, dim: int, size: int, least: int = 0) -> BoundsError:
    """Return the error of the first index that is outside [least, size)."""
    places = ((index < least) | (index >= size)).nonzero()
    at = tuple(places[0].tolist())
    value = index[at].item()
    hint = f"; torch's functions count no index from the end: pass {name} % {size}" if -size <= value < 0 else ""
    return BoundsError(
        f"index {value} at position {at} of {name} is out of range [{least}, {size - 1}] for dimension {dim} of size "
        f"{size}{hint}"
    )
