"""The operators of `gathernest.torch` as torch knows them: each on tensors, registered, and with a gradient.

An operator is a function of dense CPU tensors, its kernel. `torch.library` has it in the namespace `gathernest`, with a
fake kernel that gives the shape, so that compiled and traced programs can hold it. In eager mode, a
`torch.autograd.Function` of the same kernel and the same gradient runs it: the way by the dispatcher and Python takes
three times as long for a small call. The gradient of an operator is an operator, whose gradient is the first one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from ...ir.errors import BoundsError, InvalidGatherError
from ..gather import gather, gather_elements
from ..gradient import gather_elements_grad, gather_grad
from .torch_tensors import array_of, is_traced, is_transformed, outside, tensor_of, unsigned

Formula = Callable[..., Any]


class Operator:
    """One operator: call it with checked arguments, the first of which can have a gradient.

    Attributes:
        kernel: the function of dense CPU tensors.
        registered: the same as an operator of torch, `torch.ops.gathernest.NAME.default`.
    """

    def __init__(self, schema: str, kernel: Formula, fake: Formula):
        """Register an operator by its schema, `name(Tensor input, ...) -> Tensor`."""
        self._name = f"gathernest::{schema.partition('(')[0]}"
        self.kernel = kernel
        torch.library.define(self._name, schema[schema.index("(") :], tags=torch.Tag.pt2_compliant_tag)
        torch.library.impl(self._name, "cpu", kernel)
        torch.library.register_fake(self._name, _checking_devices(fake))
        self.registered = getattr(torch.ops.gathernest, schema.partition("(")[0]).default
        self._apply: Any = None
        self._transformed: Any = None

    def differentiate(self, save: Formula, backward: Formula, forward: Formula) -> None:
        """Give it a gradient.

        Args:
            save: `save(ctx, inputs, output)` keeps what the gradient needs.
            backward: `backward(ctx, grad)` returns a gradient for each input.
            forward: `forward(ctx, tangent, ...)` returns the tangent of the output for those of the inputs.
        """
        torch.library.register_autograd(self._name, backward, setup_context=save)

        def saving(ctx: Any, *arguments: Any) -> Any:
            save(ctx, arguments, None)
            return self.kernel(*arguments)

        parts = {"setup_context": save, "backward": backward, "jvp": forward, "vmap": self._vmap}
        self._apply = _function(self._name, forward=saving, backward=backward)
        self._transformed = _function(self._name, forward=lambda *arguments: self.kernel(*arguments), **parts)

    def __call__(self, table: Any, *arguments: Any) -> Any:
        """Run it: by torch's dispatcher where a call is traced, else with what gradients and transforms need."""
        if is_traced():
            return self.registered(table, *arguments)
        if is_transformed():
            return self._transformed(table, *arguments)
        if table.requires_grad and torch.is_grad_enabled():
            return self._apply(table, *arguments)
        return self.kernel(table, *arguments)

    def _vmap(self, info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, int]:
        """Run it for each element of a batch, as `torch.vmap` asks for."""
        pairs = list(zip(arguments, in_dims, strict=True))
        results = [
            self(*(value.select(dim, number) if isinstance(dim, int) else value for value, dim in pairs))
            for number in range(info.batch_size)
        ]
        return torch.stack(results), 0


def _function(name: str, **parts: Formula) -> Formula:
    """Return `apply` of a `torch.autograd.Function`; `setup_context` costs 20 us a call, and transforms need it."""
    methods = {part: staticmethod(each) for part, each in parts.items()}
    return type(name.replace("::", "_"), (torch.autograd.Function,), methods).apply  # pyright: ignore


def _checking_devices(fake: Formula) -> Formula:
    def checked(table: Any, *arguments: Any) -> Any:
        if table.device.type not in ("cpu", "meta"):
            raise InvalidGatherError(
                f"the operators of gathernest.torch run on the CPU, got a tensor on {table.device}; pass it with "
                ".cpu(), or call torch's own function on that device"
            )
        return fake(table, *arguments)

    return checked


def _select(table: Any, dim: int, index: Any, out: np.ndarray | None = None) -> Any:
    try:
        result = gather(array_of(table), unsigned(index), dim, out=out)
    except BoundsError:
        raise outside(index, "index", dim, table.shape[dim]) from None
    return tensor_of(result, table.dtype)


def _select_backward(grad: Any, shape: Sequence[int], dim: int, index: Any) -> Any:
    return tensor_of(gather_grad(numbers_of(grad), unsigned(index), tuple(shape), dim), grad.dtype)


def _selected_like(table: Any, dim: int, index: Any) -> Any:
    return table.new_empty((*table.shape[:dim], *index.shape, *table.shape[dim + 1 :]))


def _gather(table: Any, dim: int, index: Any, out: np.ndarray | None = None) -> Any:
    try:
        result = gather_elements(array_of(table), unsigned(index), dim, out=out)
    except BoundsError:
        raise outside(index, "index", dim, table.shape[dim]) from None
    return tensor_of(result, table.dtype)


def _gather_backward(grad: Any, shape: Sequence[int], dim: int, index: Any) -> Any:
    result = gather_elements_grad(numbers_of(grad), unsigned(index), tuple(shape), dim)
    return tensor_of(result, grad.dtype)


def _take_along(table: Any, dim: int, index: Any, out: np.ndarray | None = None) -> Any:
    try:
        result = gather_elements(array_of(table), array_of(index), dim, out=out)
    except BoundsError:
        raise outside(index, "indices", dim, table.shape[dim], -table.shape[dim]) from None
    return tensor_of(result, table.dtype)


def _take_along_backward(grad: Any, shape: Sequence[int], dim: int, index: Any) -> Any:
    return tensor_of(gather_elements_grad(numbers_of(grad), array_of(index), tuple(shape), dim), grad.dtype)


def _gathered_like(table: Any, dim: int, index: Any) -> Any:
    return table.new_empty(index.shape)


def _table_like(grad: Any, shape: Sequence[int], dim: int, index: Any) -> Any:
    return grad.new_empty(tuple(shape))


def numbers_of(grad: Any) -> np.ndarray:
    """Return a gradient as an array that can be added up; raises InvalidGatherError for other element types."""
    array = array_of(grad)
    if array.dtype.kind in "iu" and (grad.dtype.is_floating_point or grad.dtype.is_complex):
        raise InvalidGatherError(f"a gradient of {grad.dtype} cannot be added up; convert the table, as by .float()")
    return array


def pair(forward: Operator, backward: Operator) -> None:
    """Make two operators each other's gradient: `f(table, dim, index)` and `g(grad, shape, dim, index)`."""

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        table, ctx.dim, index = inputs
        ctx.shape = table.shape
        ctx.save_for_backward(index)
        ctx.save_for_forward(index)

    def save_of_backward(ctx: Any, inputs: Any, output: Any) -> None:
        _, ctx.shape, ctx.dim, index = inputs
        ctx.save_for_backward(index)
        ctx.save_for_forward(index)

    def gathered(ctx: Any, slices: Any) -> Any:
        return forward(slices, ctx.dim, ctx.saved_tensors[0])

    def added(ctx: Any, grad: Any) -> Any:
        return backward(grad, ctx.shape, ctx.dim, ctx.saved_tensors[0])

    forward.differentiate(
        save, lambda ctx, grad: (added(ctx, grad), None, None), lambda ctx, tangent, *_: gathered(ctx, tangent)
    )
    backward.differentiate(
        save_of_backward,
        lambda ctx, grad: (gathered(ctx, grad), None, None, None),
        lambda ctx, tangent, *_: added(ctx, tangent),
    )


def _operator(name: str, kernel: Formula, like: Formula, backward: Formula) -> Operator:
    """Return an operator `name(input, dim, index)` with its gradient, of which it is the gradient in turn."""
    forward = Operator(f"{name}(Tensor input, SymInt dim, Tensor index) -> Tensor", kernel, like)
    schema = f"{name}_backward(Tensor grad, SymInt[] shape, SymInt dim, Tensor index) -> Tensor"
    pair(forward, Operator(schema, backward, _table_like))
    return forward


SELECT = _operator("index_select", _select, _selected_like, _select_backward)
GATHER = _operator("gather", _gather, _gathered_like, _gather_backward)
# Its indices may count from the end.
TAKE_ALONG = _operator("take_along_dim", _take_along, _gathered_like, _take_along_backward)
