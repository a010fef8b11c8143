"""What `gathernest.torch` does not take: one error that says what was got, what is accepted, and what works."""

import importlib
import sys

import numpy as np
import pytest

import gathernest as gn


def test_import_without_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "gathernest.torch", raising=False)
    with pytest.raises(gn.DependencyError) as caught:
        importlib.import_module("gathernest.torch")
    assert str(caught.value) == (
        "gathernest.torch needs PyTorch, which is not installed; run pip install 'gathernest[torch]'"
    )


torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")

# Torch's own function runs calls by the indices of the first entry, and an operator those of the second.
SIZES = {"small": (5, 3, torch.tensor([0, 2, 4])), "large": (20_000, 64, torch.arange(40_000) % 20_000)}
TABLE, INDEX = torch.zeros(5, 3), SIZES["small"][2]
FEW_BITS = torch.zeros(3, dtype=torch.uint8).view(torch.int4)
DENSE = "input of gathernest.torch.index_select must be a dense tensor on the CPU, got "
OUT_GRADIENT = (
    "out cannot be used where a gradient is wanted, as in torch; leave it away, or call within torch.no_grad()"
)
LAST_OFFSET = (
    "with include_last_offset=True the last of offsets must end the last bag, at most at 3, the number of indices"
)


def bags(index=INDEX[None], weight=TABLE, *rest, **given):
    return gnt.embedding_bag(index, weight, *rest, **given)


def index_add(input=TABLE, dim=0, index=INDEX, source=TABLE[:3], **given):
    return gnt.index_add(input, dim, index, source, **given)


CALLS = {
    "list": (
        lambda: gnt.index_select([1, 2], 0, INDEX),
        "input must be a torch.Tensor, got list; pass torch.as_tensor(",
    ),
    "array": (
        lambda: gnt.gather(TABLE.numpy(), 0, INDEX),
        "input must be a torch.Tensor, got ndarray; pass torch.from_numpy(input)",
    ),
    "list of indices": (
        lambda: gnt.index_select(TABLE, 0, [1, 2]),
        "index must be a torch.Tensor, got list; pass torch.as_tensor(index)",
    ),
    "array of indices": (
        lambda: gnt.embedding(INDEX.numpy(), TABLE),
        "input must be a torch.Tensor, got ndarray; pass torch.from_numpy(input)",
    ),
    "no indices": (lambda: gnt.take_along_dim(TABLE, None, 0), "indices must be a torch.Tensor, got NoneType"),
    "compressed": (
        lambda: gnt.gather(TABLE.to_sparse_csr(), 0, INDEX[:, None]),
        "one of the layout torch.sparse_csr; pass input.to_dense()",
    ),
    "nested": (
        lambda: gnt.index_select(torch.nested.nested_tensor([TABLE[0], TABLE[0, :2]]), 0, INDEX),
        f"{DENSE}one whose rows differ in length; pass input.to_padded_tensor(0)",
    ),
    "quantized": (
        lambda: gnt.take_along_dim(torch.quantize_per_tensor(TABLE, 0.1, 0, torch.qint8), INDEX[:, None], 0),
        "one of quantized elements of torch.qint8; pass input.int_repr(), its integers, or input.dequantize()",
    ),
    "index of 4 bits": (
        lambda: gnt.index_select(TABLE, 0, FEW_BITS),
        "index must be a tensor of integers of 8 to 64 bits, got torch.int4; pass index.long()",
    ),
    "float index": (
        lambda: gnt.index_select(TABLE, 0, INDEX.float()),
        "index must be a tensor of integers, got torch.float32; pass index.long()",
    ),
    "mask": (
        lambda: gnt.index_select(TABLE, 0, INDEX > 0),
        "index must be a tensor of integers, got torch.bool; for a mask, pass index.nonzero().squeeze(1)",
    ),
    "dim out of range": (
        lambda: gnt.index_select(TABLE, 2, INDEX),
        "dim 2 is out of range [-2, 1] for input of rank 2",
    ),
    "dim": (lambda: gnt.gather(TABLE, 0.5, INDEX), "dim must be an int, got 0.5"),
    "rank of index_select": (
        lambda: gnt.index_select(TABLE, 0, INDEX[None]),
        "index must have rank 1 or 0, got shape (1, 3); gathernest.torch.embedding takes any shape, and "
        "gathernest.torch.gather an index for each element",
    ),
    "scalar": (
        lambda: gnt.index_select(TABLE[0, 0], 0, INDEX),
        "index must have one element for a scalar input, got 3",
    ),
    "rank of gather": (
        lambda: gnt.gather(TABLE, 0, INDEX),
        "input and index must have the same rank, got 2 and 1; gathernest.torch.index_select takes whole slices",
    ),
    "size off dim": (
        lambda: gnt.gather(TABLE, 0, torch.zeros(1, 4, dtype=torch.int64)),
        "index must not be larger than input off dim 0, got input of shape (5, 3) and index of shape (1, 4)",
    ),
    "broadcast": (
        lambda: gnt.take_along_dim(TABLE, torch.zeros(4, 1, dtype=torch.int64), 1),
        "input and indices must fit each other off dim 1, got shapes (5, 3) and (4, 1)",
    ),
    "rank of take_along_dim": (
        lambda: gnt.take_along_dim(TABLE, INDEX, 1),
        "input and indices must have the same rank, got 2 and 1; see Tensor.unsqueeze",
    ),
    "out of another dtype": (
        lambda: gnt.index_select(TABLE, 0, INDEX, out=torch.zeros(3, 3, dtype=torch.float64)),
        "out must have dtype torch.float32 as input has, got torch.float64",
    ),
    "out with a gradient": (
        lambda: gnt.index_select(TABLE.clone().requires_grad_(), 0, INDEX, out=torch.zeros(3, 3)),
        OUT_GRADIENT,
    ),
    "out that wants a gradient": (lambda: index_add(out=torch.zeros(5, 3, requires_grad=True)), OUT_GRADIENT),
    "gradient of complex halves": (
        lambda: torch.ops.gathernest.index_select_backward(torch.zeros(3, dtype=torch.complex32), [5], 0, INDEX),
        "a gradient of torch.complex32 cannot be added up; convert the table, as by .float()",
    ),
    "vector of weights": (
        lambda: gnt.embedding(INDEX, TABLE[0]),
        "weight must be a matrix (rows, columns), got shape (3,)",
    ),
    "padding": (lambda: gnt.embedding(INDEX, TABLE, padding_idx=6), "padding_idx 6 is out of range [-5, 4] for 5 rows"),
    "padding of bags": (lambda: bags(padding_idx=1.0), "padding_idx must be an int, got 1.0"),
    "offsets of rows": (
        lambda: bags(offsets=INDEX),
        "offsets must be None for an input of rank 2, whose rows are the bags",
    ),
    "no offsets": (
        lambda: bags(INDEX),
        "offsets must have rank 1 for an input of rank 1, got None; see input.unsqueeze(0)",
    ),
    "rank of bags": (lambda: bags(INDEX[None, None]), "input must have rank 1 or 2, got shape (1, 1, 3)"),
    "whole weights": (
        lambda: bags(weight=TABLE.int()),
        "weight must be float16, bfloat16, float32 or float64, got torch.int32; convert it, as by .float()",
    ),
    "mode": (lambda: bags(mode="min"), 'mode must be "sum", "mean" or "max", got \'min\''),
    "factors of means": (
        lambda: bags(per_sample_weights=torch.rand(1, 3)),
        "per_sample_weights are for mode=\"sum\", as in torch, got mode='mean'",
    ),
    "shape of factors": (
        lambda: bags(mode="sum", per_sample_weights=torch.rand(1, 2)),
        "per_sample_weights must have the shape of input and the dtype of weight, (1, 3) and torch.float32, got "
        "(1, 2) and torch.float32",
    ),
    "first offset": (lambda: bags(INDEX, TABLE, torch.tensor([1, 3])), "offsets must begin with 0"),
    "falling offsets": (lambda: bags(INDEX, TABLE, torch.tensor([0, 2, 1])), "offsets must not fall"),
    "negative last offset": (
        lambda: bags(INDEX, TABLE, torch.tensor([0, -1]), include_last_offset=True),
        f"{LAST_OFFSET}; got -1",
    ),
    "last offset": (
        lambda: bags(INDEX, TABLE, torch.tensor([0, 9]), include_last_offset=True),
        f"{LAST_OFFSET}; got 9",
    ),
    "no last offset": (lambda: bags(INDEX, TABLE, INDEX[:0], include_last_offset=True), f"{LAST_OFFSET}; got none"),
    "shape of source": (lambda: index_add(source=TABLE[:2]), "source must have shape (3, 3)"),
    "dtypes of index_add": (lambda: index_add(source=TABLE[:3].double()), "input and source must have one dtype"),
    "sparse source": (lambda: index_add(source=TABLE[:3].to_sparse()), "source of gathernest.torch.index_add must be"),
    "fraction": (
        lambda: index_add(TABLE.int(), source=TABLE[:3].int(), alpha=0.5),
        "alpha must be a whole number from -2147483648 to 2147483647 for torch.int32, got 0.5",
    ),
    "text as alpha": (lambda: index_add(alpha="x"), "alpha must be a number"),
    "complex alpha": (lambda: index_add(alpha=1j), "alpha must be real for torch.float32, as in torch, got 1j"),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_are_named(name):
    call, text = CALLS[name]
    with pytest.raises(gn.GathernestError) as caught:
        call()
    assert text in str(caught.value)


@pytest.mark.parametrize("wants_grad", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_an_index_outside_is_named_with_its_place(size, wants_grad):
    rows, columns, index = SIZES[size]
    index = index.clone()
    index[1] = rows
    low, table = index.clone(), torch.zeros(rows, columns, requires_grad=wants_grad)
    low[1] = -2
    each, place = low[:rows, None].expand(-1, columns), "at position (1,) of"
    end = f"for dimension 0 of size {rows}"
    hint = "torch's functions count no index from the end: pass"
    calls = {
        f"index {rows} {place} index is out of range [0, {rows - 1}] {end}": lambda: gnt.index_select(table, 0, index),
        f"{place} input is out of range [0, {rows - 1}] {end}; {hint} input % {rows}": lambda: gnt.embedding(
            low, table
        ),
        f"index -2 at position (1, 0) of index is out of range [0, {rows - 1}] {end}; {hint}": lambda: gnt.gather(
            table, 0, each
        ),
        f"at position (1, 0) of indices is out of range [-{rows}, {rows - 1}] {end}": lambda: gnt.take_along_dim(
            table, each - rows, 0
        ),
        f"index {rows} {place} index is": lambda: gnt.index_add(table, 0, index, torch.zeros(len(index), columns)),
        f"index {rows} at position (0, 1) of input": lambda: gnt.embedding_bag(index[None], table, mode="sum"),
        f"index -2 {place} input is": lambda: gnt.embedding_bag(low, table, torch.tensor([0, 2])),
        "at position (0, 1) of input is": lambda: gnt.embedding_bag(index[None], table, mode="max"),
    }
    for text, call in calls.items():
        with pytest.raises(gn.BoundsError) as caught:
            call()
        assert text in str(caught.value)


def test_out_is_not_written_by_a_large_call_where_an_index_is_outside():
    rows, columns, index = SIZES["large"]
    out = torch.ones(len(index), columns)
    with pytest.raises(gn.BoundsError):
        gnt.index_select(torch.zeros(rows, columns), 0, torch.full_like(index, rows), out=out)
    assert np.array_equal(out, np.ones(out.shape))


def test_an_option_without_a_gradient_of_that_kind_is_named():
    weight = torch.zeros(5, 3, requires_grad=True)
    with pytest.raises((gn.InvalidGatherError, RuntimeError)):
        gnt.embedding(INDEX, weight, scale_grad_by_freq=True, sparse=True).sum().backward()
