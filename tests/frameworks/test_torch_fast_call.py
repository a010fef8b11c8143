"""Calls of `gathernest.torch` that were made before are found without a view from Python, and give the same."""

import gc
import sys
import tracemalloc

import pytest

import gathernest as gn

torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("this version of torch has no C functions of DLPack", allow_module_level=True)

from gathernest.kernels.frameworks import torch_operators  # noqa: E402

SLICES, ELEMENTS = torch.tensor([4, 0, 3]), torch.tensor([[1, 0, 2], [4, 4, 0]])
CALLS = {
    "index_select": lambda table, **given: gnt.index_select(table, 0, SLICES, **given),
    "index_select, last dim": lambda table, **given: gnt.index_select(table, -1, SLICES % 3, **given),
    "gather": lambda table, **given: gnt.gather(table, -2, ELEMENTS, **given),
    "take_along_dim": lambda table, **given: gnt.take_along_dim(table, ELEMENTS - 5, 0, **given),
    "embedding": lambda table: gnt.embedding(ELEMENTS, table),
    "embedding, padding": lambda table: gnt.embedding(ELEMENTS.int(), table, -1),
}
DTYPES = ("uint8", "bool", "float16", "bfloat16", "float32", "complex64", "float8_e5m2")


def tables(dtype):
    return [torch.arange(first, first + 15).reshape(5, 3).to(getattr(torch, dtype)) for first in (0, 1, 2, 3)]


@pytest.fixture
def only_the_fast_way(monkeypatch):
    """Return a function after which every other way to a result fails."""

    def forbid():
        for name in ("gather", "gather_elements", "run_gradient", "array_of"):
            monkeypatch.setattr(torch_operators, name, None)

    return forbid


@pytest.mark.parametrize("name", CALLS)
def test_a_repeated_call_takes_the_fast_way_for_every_dtype(name, only_the_fast_way):
    call = CALLS[name]
    expected = {dtype: [call(table) for table in tables(dtype)] for dtype in DTYPES}
    only_the_fast_way()
    for dtype in DTYPES:
        for table, wanted in zip(tables(dtype), expected[dtype], strict=True):
            result = call(table)
            assert result.dtype == wanted.dtype
            assert torch.equal(result.view(torch.uint8), wanted.view(torch.uint8))
            assert result.stride() == wanted.stride()


@pytest.mark.parametrize("name", ["index_select", "gather", "take_along_dim"])
def test_so_does_one_into_out_and_one_with_a_gradient(name, only_the_fast_way):
    call = CALLS[name]
    for dtype in (torch.float32, torch.bfloat16):
        first, *rest = (table.requires_grad_() for table in tables(str(dtype).rpartition(".")[2]))
        out = call(first.detach())
        for table in (first, first):
            call(table.detach(), out=out)
            call(table).sum().backward()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(torch_operators, "gather", None)
            patched.setattr(torch_operators, "gather_elements", None)
            patched.setattr(torch_operators, "run_gradient", None)
            for table in rest:
                before = out._version
                assert call(table.detach(), out=out) is out
                assert out._version > before
                assert torch.equal(out, call(table))
                call(table).sum().backward()
                assert torch.equal(2 * table.grad, first.grad)


def test_values_that_are_not_in_memory_take_another_way():
    """A negated view and a conjugate have the strides and the dtype of a call that is remembered."""
    numbers = torch.complex(*torch.arange(30.0).reshape(2, 5, 3))
    for _ in range(3):
        assert torch.equal(gnt.index_select(numbers, 0, SLICES), numbers[SLICES])
        assert torch.equal(gnt.index_select(numbers.imag, 0, SLICES), numbers.imag[SLICES])
    assert torch.equal(gnt.index_select(numbers.conj(), 0, SLICES), numbers.conj()[SLICES])
    assert numbers.conj().imag.is_neg()
    assert torch.equal(gnt.index_select(numbers.conj().imag, 0, SLICES), -numbers.imag[SLICES])
    zeros = torch._efficientzerotensor((5, 3))
    assert torch.equal(gnt.index_select(zeros, 0, SLICES), torch.zeros(3, 3))


def test_an_index_out_of_range_has_the_same_message_as_the_first_time():
    for _ in range(3):
        gnt.index_select(torch.zeros(5, 3, requires_grad=True), 0, SLICES)
    for index in (SLICES + 1, torch.tensor([5, 0, 3])):
        for table in (torch.zeros(5, 3), torch.zeros(5, 3, requires_grad=True)):
            with pytest.raises(gn.BoundsError, match=r"index 5 at position \(0,\) of index is out of range \[0, 4\]"):
                gnt.index_select(table, 0, index)


def test_indices_are_saved_as_torch_saves_tensors():
    """Hooks see them, and a change of them before the backward pass is an error."""
    table, index, packed = torch.ones(5, 3, requires_grad=True), SLICES.clone(), []
    for _ in range(3):
        with torch.autograd.graph.saved_tensors_hooks(lambda each: packed.append(each) or each, lambda each: each):
            gnt.index_select(table, 0, index)
        assert [each.data_ptr() for each in packed] == [index.data_ptr()]
        packed.clear()
    result = gnt.index_select(table, 0, index)
    index.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_out_that_wants_a_gradient_takes_the_way_with_checks():
    table, out = torch.rand(5, 3), torch.empty(3, 3)
    for _ in range(3):
        gnt.index_select(table, 0, SLICES, out=out)
    with pytest.raises(gn.InvalidGatherError, match="out cannot be used where a gradient is wanted"):
        gnt.index_select(table, 0, SLICES, out=out.clone().requires_grad_())
    with pytest.raises(gn.InvalidGatherError, match="out cannot be used where a gradient is wanted"):
        gnt.index_select(table.requires_grad_(), 0, SLICES, out=out)
    with torch.no_grad():
        assert gnt.index_select(table, 0, SLICES, out=out) is out


def test_results_own_their_memory_and_nothing_is_leaked():
    table = torch.arange(5000.0).reshape(5, 1000)
    results = [gnt.index_select(table, 0, SLICES) for _ in range(4)]
    gc.collect()
    counts = sys.getrefcount(table), sys.getrefcount(SLICES)
    tracemalloc.start()
    for _ in range(100):
        gnt.index_select(table, 0, SLICES)
        gnt.index_select(table, 0, SLICES, out=results[0])
        gnt.index_select(table.requires_grad_(), 0, SLICES).sum().backward()
        table.requires_grad_(False).grad = None
    gc.collect()
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_bytes < 10 * 12_000  # a result has 12,000
    assert (sys.getrefcount(table), sys.getrefcount(SLICES)) == counts
    wanted = table[SLICES]
    table.zero_()
    assert all(torch.equal(result, wanted) for result in results)


def test_a_call_of_another_function_with_the_same_arrays_is_not_found():
    table, column = tables("float32")[0], ELEMENTS[:, :1]
    for _ in range(3):
        gnt.embedding(ELEMENTS, table)
        gn.gather_elements(table.numpy(), column.numpy(), 0)
        gnt.take_along_dim(table, ELEMENTS - 5, 0)
    with pytest.raises(gn.InvalidGatherError, match="index must have rank 1 or 0"):
        gnt.index_select(table, 0, ELEMENTS)
    assert torch.equal(gnt.take_along_dim(table, column, 0), torch.take_along_dim(table, column, 0))
    with pytest.raises(gn.BoundsError, match="torch's functions count no index from the end"):
        gnt.gather(table, 0, ELEMENTS - 5)
