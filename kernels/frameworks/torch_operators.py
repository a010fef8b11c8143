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
from torch import Tensor  # pyright: ignore[reportMissingImports]
from torch.autograd import forward_ad  # pyright: ignore[reportMissingImports]

from ...ir.errors import BoundsError, InvalidGatherError
from ...ir.operator_spec import Gather, GatherElements
from ...ir.semantics import Bounds
from ..gather import gather, gather_elements
from ..gradient import keys_of_gradient, run_gradient
from ..interchange.libraries import count_change
from ..runtime.call_cache import CALLS
from .torch_fast_call import Finder, OwnGradient, finders, own_function
from .torch_tensors import (
    array_of,
    has_function_mode,
    is_compiling,
    is_dispatched,
    is_grad_enabled,
    is_traced,
    is_transformed,
    outside,
    tensor_of,
    unsigned,
)

Formula = Callable[..., Any]


class Operator:
    """One operator: call it with checked arguments.

    Attributes:
        kernel: the function of dense CPU tensors.
        registered: the same as an operator of torch, `torch.ops.gathernest.NAME.default`.
        reverse: the operator that is its gradient, `g(grad, shape, dim, index)`, where `pair` made it that.
    """

    def __init__(self, schema: str, kernel: Formula, fake: Formula, finder: str = "", own: OwnGradient | None = None):
        """Register an operator by its schema, `name(Tensor input, ...) -> Tensor`.

        `finder` is the name of that one of `Finders` which finds its calls. `own` is torch's function of the same
        arguments for a small call with a gradient, which has the same bytes.
        """
        self._name = f"gathernest::{schema.partition('(')[0]}"
        self.kernel, self._finder, self._own_gradient = kernel, finder, own
        torch.library.define(self._name, schema[schema.index("(") :], tags=torch.Tag.pt2_compliant_tag)
        torch.library.impl(self._name, "cpu", kernel)
        torch.library.register_fake(self._name, _checking_devices(fake))
        self.registered = getattr(torch.ops.gathernest, schema.partition("(")[0]).default
        self.reverse: Any = None
        self._apply: Any = None
        self._backward: Any = None
        self._find: Formula = self._bind
        self._apply_found: Any = None
        self._own: Any = None
        self._transformed: Any = None

    def differentiate(self, save: Formula, backward: Formula, forward: Formula) -> None:
        """Give it a gradient.

        Args:
            save: `save(ctx, inputs, output)` keeps what the gradient needs. That of an operator with a finder saves the
                second input, and keeps the shape of the first and the others: `ctx.kept = (shape, *others)`.
            backward: `backward(ctx, grad)` returns a gradient for each input.
            forward: `forward(ctx, tangent, ...)` returns the tangent of the output for those of the inputs.
        """
        torch.library.register_autograd(self._name, backward, setup_context=save)

        def saving(ctx: Any, *arguments: Any) -> Any:
            save(ctx, arguments, None)
            return self.kernel(*arguments)

        def setting_up(ctx: Any, inputs: Any, output: Any) -> None:
            save(ctx, inputs, output)
            ctx.save_for_forward(*(ctx.to_save or ()))

        self._backward = backward
        self._apply = _function(self._name, forward=saving, backward=backward).apply
        parts = {"setup_context": setting_up, "backward": backward, "jvp": forward, "vmap": self._vmap}
        self._transformed = _function(self._name, forward=lambda *arguments: self.kernel(*arguments), **parts).apply

    def __call__(self, table: Any, *arguments: Any) -> Any:
        """Run it: by torch's dispatcher where it must see the call, else with what gradients and transforms need."""
        if is_traced() or is_dispatched(table, *arguments):
            return self.registered(table, *arguments)
        if is_transformed():
            return self._transformed(table, *arguments)
        if is_grad_enabled():
            for each in (table, *arguments):
                if isinstance(each, Tensor) and each.requires_grad:
                    return self._apply(table, *arguments)
        return self.kernel(table, *arguments)

    def found(self, out: Any, table: Any, index: Any, first: Any, second: Any, others: tuple[Any, ...]) -> Any:
        """Return the result of a call that was made before, with its gradient; None where another way must look.

        The way of a small call that nobody watches. The arguments need no checks: a call with others was not made.

        Args:
            out, table, index: what the caller gave; `out` may be None.
            first, second: the first two keys of the call in the call cache.
            others: what the operator takes but `table` and `index`.
        """
        if is_compiling() or forward_ad._current_level >= 0:
            return None
        try:
            result = self._find(
                CALLS.find, table, index, out, first, second, "error", others, self._apply_found, self._own
            )
        except BoundsError:  # the way with checks says why
            return None
        if out is not None and result is not None:
            count_change(out)
        return result

    def _bind(self, *arguments: Any) -> None:
        """Get the finder, which is compiled now, and find nothing; not where torch watches what is done for that."""
        if is_traced() or is_transformed() or has_function_mode():
            return
        finder = getattr(finders(), self._finder)
        parts = {"forward": finder.forward, "backward": lambda ctx, grad: (self._backward(ctx, grad)[0], None)}
        self._apply_found = plain_function(self._name, **parts)
        self._own = None if self._own_gradient is None else own_function(self._own_gradient)
        self._find = finder.run

    def _vmap(self, info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, int]:
        """Run it for each element of a batch, as `torch.vmap` asks for."""
        pairs = list(zip(arguments, in_dims, strict=True))
        results = [
            self(*(value.select(dim, number) if isinstance(dim, int) else value for value, dim in pairs))
            for number in range(info.batch_size)
        ]
        return torch.stack(results), 0


def _function(name: str, **parts: Formula) -> Any:
    """Return a `torch.autograd.Function`; `setup_context` costs 20 us a call, and transforms need it."""
    methods = {part: staticmethod(each) for part, each in parts.items()}
    return type(name.replace("::", "_"), (torch.autograd.Function,), methods)


def plain_function(name: str, forward: Formula, backward: Formula) -> Formula:
    """Return the `apply` of such a function, where no transform is active and torch's in Python takes 0.8 us more."""
    return super(torch.autograd.Function, _function(name, forward=forward, backward=backward)).apply


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
    return added_up(Gather(dim), finders().elements, grad, shape, index)


def _selected_like(table: Any, dim: int, index: Any) -> Any:
    return table.new_empty((*table.shape[:dim], *index.shape, *table.shape[dim + 1 :]))


def _gather(table: Any, dim: int, index: Any, out: np.ndarray | None = None) -> Any:
    try:
        result = gather_elements(array_of(table), unsigned(index), dim, out=out)
    except BoundsError:
        raise outside(index, "index", dim, table.shape[dim]) from None
    return tensor_of(result, table.dtype)


def _gather_backward(grad: Any, shape: Sequence[int], dim: int, index: Any) -> Any:
    return added_up(GatherElements(dim), finders().elements, grad, shape, index)


def _take_along(table: Any, dim: int, index: Any, out: np.ndarray | None = None) -> Any:
    try:
        result = gather_elements(array_of(table), array_of(index), dim, out=out)
    except BoundsError:
        raise outside(index, "indices", dim, table.shape[dim], -table.shape[dim]) from None
    return tensor_of(result, table.dtype)


def _take_along_backward(grad: Any, shape: Sequence[int], dim: int, index: Any) -> Any:
    return added_up(GatherElements(dim), finders().signed, grad, shape, index)


def _gathered_like(table: Any, dim: int, index: Any) -> Any:
    return table.new_empty(index.shape)


def _table_like(grad: Any, shape: Sequence[int], dim: int, index: Any) -> Any:
    return grad.new_empty(tuple(shape))


def converted(tensor: Any, dtype: Any) -> Any:
    """Return a copy in another dtype, in memory of NumPy, which has huge pages where it is large.

    To 200,000 x 256 bfloat16 that takes a quarter of the time of memory of torch.
    """
    memory = np.empty(tuple(tensor.shape), f"i{dtype.itemsize}")
    return torch.from_numpy(memory).view(dtype).copy_(tensor)


def added_up(
    operator: Gather | GatherElements,
    finder: Finder,
    grad: Any,
    shape: Sequence[int],
    index: Any,
    bounds: Bounds = Bounds.ERROR,
) -> Any:
    """Return the gradient of an operator with respect to a table of a shape.

    bfloat16 and float16 become float32 here: a call of float32 is remembered.

    Raises:
        InvalidGatherError: `grad` has elements that cannot be added up.
    """
    if grad.dtype in (torch.bfloat16, torch.float16):
        return converted(added_up(operator, finder, converted(grad, torch.float32), shape, index, bounds), grad.dtype)
    sizes = tuple(shape)
    keys = keys_of_gradient(operator, bounds, sizes)
    found = finder.run(CALLS.find, grad, index, None, *keys)
    if found is not None:
        return found
    picks = array_of(index) if finder is finders().signed else unsigned(index)
    array = array_of(grad)
    if array.dtype.kind in "iu" and (grad.dtype.is_floating_point or grad.dtype.is_complex):
        raise InvalidGatherError(f"a gradient of {grad.dtype} cannot be added up; convert the table, as by .float()")
    return tensor_of(run_gradient(operator, array, picks, sizes, bounds), grad.dtype)


def save(ctx: Any, inputs: Any, output: Any) -> None:
    """Keep what the gradient of `f(table, index, *others)` needs; as `Finder.forward` does."""
    table, index, *others = inputs
    ctx.save_for_backward(index)
    ctx.kept = table.shape, *others


def _save_of_gather(ctx: Any, inputs: Any, output: Any) -> None:
    table, dim, index = inputs
    save(ctx, (table, index, dim), output)


def pair(forward: Operator, backward: Operator) -> None:
    """Make two operators each other's gradient: `f(table, dim, index)` and `g(grad, shape, dim, index)`."""
    forward.reverse = backward

    def save_of_backward(ctx: Any, inputs: Any, output: Any) -> None:
        _, shape, dim, index = inputs
        ctx.save_for_backward(index)
        ctx.kept = shape, dim

    def gathered(ctx: Any, slices: Any) -> Any:
        return forward(slices, ctx.kept[1], ctx.saved_tensors[0])

    def added(ctx: Any, grad: Any) -> Any:
        return backward(grad, *ctx.kept, ctx.saved_tensors[0])

    forward.differentiate(
        _save_of_gather,
        lambda ctx, grad: (added(ctx, grad), None, None),
        lambda ctx, tangent, *_: gathered(ctx, tangent),
    )
    backward.differentiate(
        save_of_backward,
        lambda ctx, grad: (gathered(ctx, grad), None, None, None),
        lambda ctx, tangent, *_: added(ctx, tangent),
    )


def _operator(
    name: str, kernel: Formula, like: Formula, backward: Formula, finder: str, own: OwnGradient | None
) -> Operator:
    """Return an operator `name(input, dim, index)` with its gradient, of which it is the gradient in turn."""
    forward = Operator(f"{name}(Tensor input, SymInt dim, Tensor index) -> Tensor", kernel, like, finder, own)
    schema = f"{name}_backward(Tensor grad, SymInt[] shape, SymInt dim, Tensor index) -> Tensor"
    pair(forward, Operator(schema, backward, _table_like))
    return forward


# With the backward pass torch's own function takes 0.75 to 1.0 of the time of ours up to here, and more beyond (Zen 4).
MOST_OWN_SLICES, _MOST_OWN_ELEMENTS = 128, 1024
_OWN_SELECT = OwnGradient(
    torch.index_select,
    2,
    MOST_OWN_SLICES,
    Tensor.index_add_,
    by_int64=lambda table, dim, index: torch.index_select(table, dim, index.long()),
)
_OWN_GATHER = OwnGradient(torch.gather, 2, _MOST_OWN_ELEMENTS, Tensor.scatter_add_, False, True)
SELECT = _operator("index_select", _select, _selected_like, _select_backward, "slices", _OWN_SELECT)
GATHER = _operator("gather", _gather, _gathered_like, _gather_backward, "elements", _OWN_GATHER)
# Its indices may count from the end.
TAKE_ALONG = _operator("take_along_dim", _take_along, _gathered_like, _take_along_backward, "signed", None)


def _sparse_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Return the elements of a gradient as they are, a sparse tensor: torch's own function makes it."""
    shape, dim = ctx.kept
    like = grad.new_empty(()).expand(shape)  # of which only the shape is read
    return torch.ops.aten._gather_sparse_backward(like, dim, ctx.saved_tensors[0].long(), grad), None, None


SPARSE_GATHER = Operator(
    "gather_with_sparse_grad(Tensor input, SymInt dim, Tensor index) -> Tensor", _gather, _gathered_like, "elements"
)
SPARSE_GATHER.differentiate(
    _save_of_gather, _sparse_backward, lambda ctx, tangent, *_: GATHER(tangent, ctx.kept[1], ctx.saved_tensors[0])
)
