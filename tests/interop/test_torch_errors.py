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
SIZES = {"small": (5, 3, torch.tensor([0, 2, 4])), "large": (20_000, 64, torch.arange(70_000) % 20_000)}
TABLE, INDEX = torch.zeros(5, 3), SIZES["small"][2]
FEW_BITS = torch.zeros(3, dtype=torch.uint8).view(torch.int4)


def bags(index=INDEX[None], weight=TABLE, *rest, **given):
    return gnt.embedding_bag(index, weight, *rest, **given)


def index_add(input=TABLE, dim=0, index=INDEX, source=TABLE[:3], **given):
    return gnt.index_add(input, dim, index, source, **given)


# What is no tensor of the right kind is named with the line that works.
NAMED = {
    "input must be a torch.Tensor, got list; pass torch.as_tensor(": lambda: gnt.index_select([1, 2], 0, INDEX),
    "input must be a torch.Tensor, got ndarray; pass torch.from_numpy(input)": (
        lambda: gnt.gather(TABLE.numpy(), 0, INDEX)
    ),
    "index must be a torch.Tensor, got list; pass torch.as_tensor(index)": lambda: gnt.index_select(TABLE, 0, [1, 2]),
    "indices must be a torch.Tensor, got NoneType": lambda: gnt.take_along_dim(TABLE, None, 0),
    "one of the layout torch.sparse_csr; pass input.to_dense()": (
        lambda: gnt.gather(TABLE.to_sparse_csr(), 0, INDEX[:, None])
    ),
    "one whose rows differ in length; pass input.to_padded_tensor(0)": (
        lambda: gnt.index_select(torch.nested.nested_tensor([TABLE[0], TABLE[0, :2]]), 0, INDEX)
    ),
    "index must be a tensor of integers of 8 to 64 bits, got torch.int4; pass index.long()": (
        lambda: gnt.index_select(TABLE, 0, FEW_BITS)
    ),
    "index must be a tensor of integers, got torch.float32; pass index.long()": (
        lambda: gnt.index_select(TABLE, 0, INDEX.float())
    ),
    "index must be a tensor of integers, got torch.bool; for a mask, pass index.nonzero().squeeze(1)": (
        lambda: gnt.index_select(TABLE, 0, INDEX > 0)
    ),
    "source of gathernest.torch.index_add must be a dense": lambda: index_add(source=TABLE[:3].to_sparse()),
    "padding_idx must be an int, got 1.0": lambda: bags(padding_idx=1.0),
    "alpha must be finite in torch.float16, got 65520.0": lambda: index_add(
        TABLE.half(), source=TABLE[:3].half(), alpha=65520.0
    ),
    "and have one bag or more": lambda: gnt.embedding_bag(
        INDEX, TABLE, torch.tensor([0]), mode="max", include_last_offset=True
    ),
    "offsets must not fall": lambda: bags(INDEX, TABLE, torch.tensor([0, 2, 1])),
    "alpha must be a whole number from -2147483648 to 2147483647 for torch.int32, got 0.5": (
        lambda: index_add(TABLE.int(), source=TABLE[:3].int(), alpha=0.5)
    ),
    "a gradient of torch.complex32 cannot be added up; convert the table, as by .float()": (
        lambda: torch.ops.gathernest.gather_backward(torch.zeros(3, dtype=torch.complex32), [5], 0, INDEX)
    ),
}
# Of other calls torch's own function says what is wrong.
REJECTED = {
    "dim out of range": lambda: gnt.index_select(TABLE, 2, INDEX),
    "dim": lambda: gnt.gather(TABLE, 0.5, INDEX),
    "rank of index_select": lambda: gnt.index_select(TABLE, 0, INDEX[None]),
    "scalar": lambda: gnt.index_select(TABLE[0, 0], 0, INDEX),
    "rank of gather": lambda: gnt.gather(TABLE, 0, INDEX),
    "size off dim": lambda: gnt.gather(TABLE, 0, torch.zeros(1, 4, dtype=torch.int64)),
    "broadcast": lambda: gnt.take_along_dim(TABLE, torch.zeros(4, 1, dtype=torch.int64), 1),
    "rank of take_along_dim": lambda: gnt.take_along_dim(TABLE, INDEX, 1),
    "out": lambda: gnt.index_select(TABLE, 0, INDEX, out=torch.zeros(3, 3, dtype=torch.float64)),
    "out with a gradient": lambda: gnt.index_select(TABLE.clone().requires_grad_(), 0, INDEX, out=torch.zeros(3, 3)),
    "out that wants a gradient": lambda: index_add(out=torch.zeros(5, 3, requires_grad=True)),
    "vector of weights": lambda: gnt.embedding(INDEX, TABLE[0]),
    "padding": lambda: gnt.embedding(INDEX, TABLE, padding_idx=6),
    "offsets of rows": lambda: bags(offsets=INDEX),
    "no offsets": lambda: bags(INDEX),
    "rank of bags": lambda: bags(INDEX[None, None]),
    "whole weights": lambda: bags(weight=TABLE.int()),
    "mode": lambda: bags(mode="min"),
    "scaled maxima": lambda: bags(mode="max", scale_grad_by_freq=True),
    "factors of means": lambda: bags(per_sample_weights=torch.rand(1, 3)),
    "shape of factors": lambda: bags(mode="sum", per_sample_weights=torch.rand(1, 2)),
    "first offset": lambda: bags(INDEX, TABLE, torch.tensor([1, 3])),
    "last offset": lambda: bags(INDEX, TABLE, torch.tensor([0, 9]), include_last_offset=True),
    "no last offset": lambda: bags(INDEX, TABLE, INDEX[:0], include_last_offset=True),
    "shape of source": lambda: index_add(source=TABLE[:2]),
    "dtypes of index_add": lambda: index_add(source=TABLE[:3].double()),
    "text as alpha": lambda: index_add(alpha="x"),
    "complex alpha": lambda: index_add(alpha=1j),
}


@pytest.mark.parametrize("text", NAMED)
def test_wrong_arguments_are_named(text):
    with pytest.raises(gn.GathernestError) as caught:
        NAMED[text]()
    assert text in str(caught.value)


@pytest.mark.parametrize("name", REJECTED)
def test_what_torch_rejects_is_one_error_with_its_reason(name):
    with pytest.raises(
        gn.InvalidGatherError, match=r"^torch's own function rejects this call of gathernest.torch.\w+: ."
    ):
        REJECTED[name]()


@pytest.mark.parametrize("wants_grad", [False, True])
@pytest.mark.parametrize(("dim", "reason"), [(-3, "Dimension out of range"), ("a", ".*argument 'dim'")])
@pytest.mark.parametrize("size", SIZES)
def test_the_reason_of_a_wrong_dim_is_that_of_torch(size, dim, reason, wants_grad):
    rows, columns, index = SIZES[size]
    table = torch.zeros(rows, columns, requires_grad=wants_grad)
    with pytest.raises(gn.InvalidGatherError, match=rf"^torch's own .*index_select: {reason}"):
        gnt.index_select(table, dim, index)
    with pytest.raises(gn.InvalidGatherError, match=r"^torch's own function rejects this call of .*index_add: "):
        gnt.index_add(table, dim, index, torch.zeros(len(index), columns))


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
