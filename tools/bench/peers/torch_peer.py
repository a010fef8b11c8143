"""PyTorch, without its autograd: `index_select`, `take`, `gather` and indexing, into a given result or a new one.

`embedding_bag` makes every result.
"""

import math
from functools import partial
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

from ..cases.case import Case, Inputs
from .peer import Call, Peer, Variants


class Torch(Peer):
    """PyTorch on tensors that share the arrays' memory."""

    name = "torch"
    index_dtypes = ("int32", "int64")

    def start(self, threads: int) -> None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        data, out = torch.from_numpy(inputs.data), torch.from_numpy(inputs.out) if case.into == "out" else None
        sets = [_calls(case, data, torch.from_numpy(picks), out) for picks in inputs.indices]
        return {name: [calls[name] for calls in sets] for name in sets[0]}

    def result(self, returned: Any, out: np.ndarray) -> np.ndarray:
        is_given = returned is None or returned.data_ptr() == out.ctypes.data  # perhaps in another shape
        return out if is_given else np.asarray(returned)


def _calls(case: Case, data: Any, picks: Any, out: Any) -> dict[str, Call]:
    if case.is_gradient:
        return _gradient_calls(case, data, picks, out)
    if case.is_reduction:
        mode = "max" if case.operator == "gather_max" else "sum"
        return {"embedding_bag": partial(torch.nn.functional.embedding_bag, picks, data, mode=mode)}
    if case.operator == "gather_elements":
        return {"gather": partial(torch.gather, data, case.axis, picks, out=out)}
    if case.operator == "gather_nd":
        return {"index": _index(data, [*_grids(case, picks.shape[:-1]), *picks.unbind(-1)], out)}
    if case.family == "call" and out is None:
        return {"index_select": partial(torch.index_select, data, case.axis, picks)}
    if case.batch_dims:
        return _batched_calls(case, data, picks, out)
    flat = None if out is None else out.view(*case.data[: case.axis], -1, *case.data[case.axis + 1 :])
    select = partial(torch.index_select, data, case.axis, picks.reshape(-1), out=flat)
    calls: dict[str, Call] = {"index_select": _shaped(select, case, flat is not None or picks.dim() == 1)}
    if case.axis == 0:
        calls["index"] = _index(data, [picks], out)
    if data.dim() == 1 and picks.dtype == torch.int64:
        calls["take"] = partial(torch.take, data, picks, out=out)
    return calls


def _batched_calls(case: Case, data: Any, picks: Any, out: Any) -> dict[str, Call]:
    """Return `gather` with the indices expanded over rows and outer dimensions, and indexing where it can."""
    batches, axis = math.prod(case.data[: case.batch_dims]), case.data[case.axis]
    outer, inner = math.prod(case.data[case.batch_dims : case.axis]), math.prod(case.data[case.axis + 1 :])
    expanded = picks.reshape(batches, 1, -1, 1).expand(batches, outer, -1, inner)
    result = None if out is None else out.view(batches, outer, -1, inner)
    gather = partial(torch.gather, data.view(batches, outer, axis, inner), 2, expanded, out=result)
    calls: dict[str, Call] = {"gather": _shaped(gather, case, result is not None)}
    if case.axis == case.batch_dims:
        calls["index"] = _index(data, [*_grids(case, picks.shape), picks], out)
    return calls


def _shaped(call: Call, case: Case, is_shaped: bool) -> Call:
    """Return a call whose result has the shape of the case."""
    return call if is_shaped else lambda: call().view(case.gathered)


def _gradient_calls(case: Case, grad: Any, picks: Any, out: Any) -> dict[str, Call]:
    def index_add() -> Any:
        sums = torch.zeros(case.data, dtype=grad.dtype) if out is None else out.zero_()
        return sums.index_add_(case.axis, picks, grad)

    calls: dict[str, Call] = {"index_add_": index_add}
    if case.axis == 0 and len(case.data) == 2:
        backward = torch.ops.aten.embedding_dense_backward
        calls["embedding_dense_backward"] = partial(backward, grad, picks, case.data[0], -1, False)
    return calls


def _grids(case: Case, shape: Any) -> list[Any]:
    """Return the numbers of the batches, to index with."""
    return [torch.from_numpy(grid) for grid in np.indices(tuple(shape), sparse=True)[: case.batch_dims]]


def _index(data: Any, components: list[Any], out: Any) -> Call:
    if out is None:
        return partial(torch.ops.aten.index.Tensor, data, components)
    return partial(torch.ops.aten.index.Tensor_out, data, components, out=out)
