"""Tensors and transforms that only torch's dispatcher knows, and elements that few have, get torch's answers."""

import pytest

torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")

TABLE, INDEX = torch.arange(24.0).reshape(6, 4), torch.tensor([[5, 0, 3, 0], [1, 1, 2, 4]])
CALLS = {
    "index_select": lambda module, table: module.index_select(table, 0, INDEX[0]),
    "gather": lambda module, table: module.gather(table, 0, INDEX),
    "take_along_dim": lambda module, table: module.take_along_dim(table, INDEX, 0),
    "embedding": lambda module, table: _of(module).embedding(INDEX, table),
    "index_add": lambda module, table: module.index_add(table, 0, INDEX[0], TABLE[:4]),
    "embedding_bag": lambda module, table: _of(module).embedding_bag(INDEX, table, mode="sum"),
    "largest of bags": lambda module, table: _of(module).embedding_bag(INDEX, table, mode="max"),
}


def _of(module):
    return torch.nn.functional if module is torch else module


@pytest.mark.parametrize("name", CALLS)
def test_a_subclass_that_acts_at_dispatch_gets_its_elements(name):
    TwoTensor = pytest.importorskip("torch.testing._internal.two_tensor").TwoTensor
    for _ in range(2):
        found = CALLS[name](gnt, TwoTensor(TABLE, TABLE + 1))
        assert type(found) is TwoTensor
        assert torch.equal(found.a, CALLS[name](torch, TABLE))
        assert torch.equal(found.b, CALLS[name](torch, TABLE + 1))


@pytest.mark.parametrize("name", ["index_select", "gather", "take_along_dim", "embedding"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_gradients_of_a_batch_are_those_of_each(name, dtype):
    table = TABLE.to(dtype).requires_grad_()
    for _ in range(2):
        result = CALLS[name](gnt, table)
        grads = torch.randn(3, *result.shape, dtype=dtype)
        (found,) = torch.autograd.grad(result, table, grads, is_grads_batched=True, retain_graph=True)
        each = [torch.autograd.grad(result, table, grad, retain_graph=True)[0] for grad in grads]
        assert torch.equal(found, torch.stack(each))


@pytest.mark.parametrize("name", CALLS)
def test_functionalized_calls_give_the_same(name):
    for _ in range(2):
        found = torch.func.functionalize(lambda table: CALLS[name](gnt, table))(TABLE)
        assert torch.equal(found, CALLS[name](torch, TABLE))


def test_out_of_a_functionalized_call_has_the_result():
    def selected(table):
        out = torch.zeros(4, 4)
        gnt.index_select(table, 0, INDEX[0], out=out)
        return out + 1

    for _ in range(2):
        assert torch.equal(torch.func.functionalize(selected)(TABLE), TABLE[INDEX[0]] + 1)


def test_modules_are_traced_by_their_symbols():
    for module in (gnt.Embedding(6, 4), gnt.EmbeddingBag(6, 4)):
        traced = torch.fx.symbolic_trace(torch.nn.Sequential(module))
        assert torch.equal(traced(INDEX), module(INDEX))


@pytest.mark.parametrize("name", ["int4", "uint4", "int7", "uint1", "bits8", "float4_e2m1fn_x2"])
def test_elements_of_fewer_bits_keep_their_dtype(name):
    dtype = getattr(torch, name, None)
    if dtype is None:
        pytest.skip(f"this version of torch has no {name}")
    numbers = torch.arange(24, dtype=torch.uint8).reshape(6, 4)
    for table in (numbers, numbers.to(torch.int8)):
        for _ in range(3):
            gnt.index_select(table, 0, INDEX[0])
    for _ in range(2):
        found = gnt.index_select(numbers.view(dtype), 0, INDEX[0])
        assert found.dtype is dtype
        assert torch.equal(found.view(torch.uint8), numbers[INDEX[0]])


def test_strides_of_results_without_elements_are_those_of_torch():
    for table, index in ((TABLE, INDEX[0, :0]), (TABLE[:0], INDEX[0, :0]), (TABLE[:, :0], INDEX[0])):
        for _ in range(3):
            found, wanted = gnt.index_select(table, 0, index), torch.index_select(table, 0, index)
            assert (found.shape, found.stride()) == (wanted.shape, wanted.stride())
