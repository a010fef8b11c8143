"""What `gathernest.torch` rejects: one error that says what was got, what is accepted, and the line that would work."""

import pytest

import gathernest as gn

torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")

TABLE, INDEX = torch.zeros(5, 3), torch.tensor([0, 2, 4])
DENSE = "input of gathernest.torch.index_select must be a dense tensor on the CPU, got "
WRONG = {
    "list": (lambda: [1, 2], "input must be a torch.Tensor, got list; pass torch.as_tensor(input)"),
    "array": (TABLE.numpy, "input must be a torch.Tensor, got ndarray; pass torch.from_numpy(input)"),
    "meta": (
        lambda: TABLE.to("meta"),
        f"{DENSE}one on the device meta, which has no elements; pass a tensor with elements, such as "
        "torch.zeros(input.shape, dtype=input.dtype)",
    ),
    "sparse": (TABLE.to_sparse, f"{DENSE}one of layout torch.sparse_coo; pass input.to_dense()"),
    "compressed": (TABLE.to_sparse_csr, f"{DENSE}one of layout torch.sparse_csr; pass input.to_dense()"),
    "quantized": (
        lambda: torch.quantize_per_tensor(TABLE, 0.1, 0, torch.qint8),
        f"{DENSE}a quantized one of torch.qint8; pass input.int_repr(), its integers, or input.dequantize()",
    ),
    "nested": (
        lambda: torch.nested.nested_tensor([TABLE[0], TABLE[0, :2]]),
        f"{DENSE}a nested tensor; pass input.to_padded_tensor(0)",
    ),
}
CALLS = {
    "nested tensor of take_along_dim": (
        lambda: gnt.take_along_dim(WRONG["nested"][0](), INDEX, 0),
        "input of gathernest.torch.take_along_dim must be a dense tensor on the CPU, got a nested tensor; pass "
        "input.to_padded_tensor(0)",
    ),
    "index of 4 bits": (
        lambda: gnt.index_select(TABLE, 0, INDEX.byte().view(torch.int4)),
        "index must be a tensor of integers of 8 to 64 bits, got torch.int4; pass index.long()",
    ),
    "index out of range": (
        lambda: gnt.index_select(TABLE, 0, INDEX + 1),
        "index 5 at position (2,) of index is out of range [0, 4] for dimension 0 of size 5",
    ),
    "index from the end": (
        lambda: gnt.gather(TABLE, 1, torch.tensor([[0], [-2]], dtype=torch.int32)),
        "index -2 at position (1, 0) of index is out of range [0, 2] for dimension 1 of size 3; torch's functions "
        "count no index from the end: pass index % 3",
    ),
    "embedding": (
        lambda: gnt.embedding(INDEX - 1, TABLE),
        "index -1 at position (0,) of input is out of range [0, 4] for dimension 0 of size 5; torch's functions count "
        "no index from the end: pass input % 5",
    ),
    "take_along_dim": (
        lambda: gnt.take_along_dim(TABLE, torch.tensor([[-6]]), 0),
        "index -6 at position (0, 0) of indices is out of range [-5, 4] for dimension 0 of size 5",
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
    "out of another shape": (
        lambda: gnt.index_select(TABLE, 0, INDEX, out=torch.zeros(3)),
        "out must have shape (3, 3), or no elements, got shape (3,)",
    ),
    "out of another dtype": (
        lambda: gnt.index_select(TABLE, 0, INDEX, out=torch.zeros(3, 3, dtype=torch.float64)),
        "out must have dtype torch.float32 as input has, got torch.float64",
    ),
    "out with a gradient": (
        lambda: gnt.index_select(TABLE.clone().requires_grad_(), 0, INDEX, out=torch.zeros(3, 3)),
        "out cannot be used where a gradient is wanted, as in torch; leave it away, or call within torch.no_grad()",
    ),
    "gradient of complex halves": (
        lambda: torch.ops.gathernest.index_select_backward(torch.zeros(3, dtype=torch.complex32), [5], 0, INDEX),
        "a gradient of torch.complex32 cannot be added up; convert the table, as by .float()",
    ),
    "registered operator on another device": (
        lambda: _on_a_fake_gpu(),
        "the operators of gathernest.torch run on the CPU, got a tensor on cuda:0; pass it with .cpu(), or call "
        "torch's own function on that device",
    ),
}


def _on_a_fake_gpu():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ops.gathernest.index_select(torch.empty(5, 3, device="cuda"), 0, torch.empty(2, device="cuda"))


@pytest.mark.parametrize("kind", WRONG)
def test_input_that_is_no_dense_tensor_of_the_cpu_is_named(kind):
    make, text = WRONG[kind]
    with pytest.raises(gn.InvalidGatherError) as caught:
        gnt.index_select(make(), 0, INDEX)
    assert str(caught.value) == text


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_are_named_as_torch_names_them(name):
    call, text = CALLS[name]
    with pytest.raises(gn.GathernestError) as caught:
        call()
    assert str(caught.value) == text


def test_tensor_on_a_gpu_is_rejected():
    with pytest.raises(gn.InvalidGatherError) as caught:
        gnt.index_select(_on_a_gpu(), 0, INDEX)
    assert str(caught.value) == (f"{DENSE}one on cuda:0; pass input.cpu(), or call torch's own function on that device")


def _on_a_gpu():
    """Return a tensor on a GPU; a fake one, without values, where there is no GPU."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    if torch.cuda.is_available():
        return TABLE.cuda()
    with FakeTensorMode():
        return torch.empty(5, 3, device="cuda")
