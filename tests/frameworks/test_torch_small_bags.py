"""Small calls of `gathernest.torch.embedding_bag` take a way of their own, and give the bytes of large ones."""

import gc
import itertools
import sys
import tracemalloc
from functools import partial

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.runtime.call_cache import MOST_REMEMBERED, one_object

torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("this version of torch has no C functions of DLPack", allow_module_level=True)

from gathernest.kernels.frameworks import torch_bag_operators, torch_bags  # noqa: E402

ROWS, COLUMNS = 20, 5
DTYPES = ("float32", "float64", "bfloat16", "float16")
LENGTHS = (3, 0, 1, 6, 2, 4)
MODES = ("sum", "mean", "max", "weights")


def table_of(dtype):
    """Return numbers of several magnitudes, with signed zeros, infinity, no number, and equal ones."""
    torch.manual_seed(0)
    table = torch.randn(ROWS, COLUMNS) * 10.0 ** torch.randint(-3, 4, (ROWS, COLUMNS))
    table[3], table[4], table[5, 0], table[6, 1], table[8] = 0.0, -0.0, float("inf"), float("nan"), table[7]
    return table.to(getattr(torch, dtype))


def inputs_of(index_dtype, is_matrix):
    torch.manual_seed(1)
    shape = (6, 4) if is_matrix else (sum(LENGTHS),)
    index = torch.randint(0, ROWS, shape)
    index.view(-1)[:9] = torch.tensor([6, 7, 8, 4, 3, 6, 4, 3, 7])
    lengths = torch.tensor(LENGTHS)
    dtype = getattr(torch, index_dtype)
    return index.to(dtype), None if is_matrix else (lengths.cumsum(0) - lengths).to(dtype)


def call_of(mode, inputs, **given):
    index, offsets = inputs
    if mode == "weights":
        return lambda table, factors: gnt.embedding_bag(
            index, table, offsets, mode="sum", per_sample_weights=factors, **given
        )
    return lambda table, factors: gnt.embedding_bag(index, table, offsets, mode=mode, **given)


def factors_of(inputs, dtype):
    torch.manual_seed(2)
    return torch.randn(inputs[0].shape).to(getattr(torch, dtype))


def bytes_of(tensor):
    """Return the bytes of a tensor, with one NaN: torch and NumPy have several of narrow floats."""
    tensor = tensor.detach()
    return tensor.masked_fill(tensor.isnan(), float("nan")).contiguous().view(torch.uint8)


def assert_same(got, wanted):
    assert (got.dtype, got.shape, got.stride()) == (wanted.dtype, wanted.shape, wanted.stride())
    assert torch.equal(bytes_of(got), bytes_of(wanted))


@pytest.fixture
def take_the_way_of_large_calls(monkeypatch):
    def take():
        monkeypatch.setattr(torch_bags, "found_bags", lambda *arguments: None)
        monkeypatch.setattr(torch_bag_operators, "few_bags", lambda *arguments, **given: None)
        monkeypatch.setattr(torch_bag_operators, "FEW", -1)
        monkeypatch.setattr(torch_bag_operators, "_found_rows", lambda *arguments: None)

    return take


def is_made_again(mode, given, is_matrix):
    """Return whether such a call is found when it is made again."""
    if mode == "max" and "padding_idx" in given:
        return False
    return mode == "weights" or not (is_matrix and "padding_idx" in given)


CASES = list(itertools.product(MODES, (True, False), ("int64", "int32")))


@pytest.mark.parametrize("given", [{}, {"padding_idx": 7}], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_result_has_the_bytes_of_a_large_call(dtype, given, take_the_way_of_large_calls, monkeypatch):
    found = []
    for mode, is_matrix, index_dtype in CASES:
        inputs = inputs_of(index_dtype, is_matrix)
        call, table, factors = call_of(mode, inputs, **given), table_of(dtype), factors_of(inputs, dtype)
        for _ in range(2):
            call(table, factors)
        with monkeypatch.context() as patched:
            if is_made_again(mode, given, is_matrix):
                for name in ("gather_reduce", "reduced_few"):
                    patched.setattr(torch_bag_operators, name, None)
            found.append(call(table, factors))
    take_the_way_of_large_calls()
    for (mode, is_matrix, index_dtype), got in zip(CASES, found, strict=True):
        inputs = inputs_of(index_dtype, is_matrix)
        assert_same(got, call_of(mode, inputs, **given)(table_of(dtype), factors_of(inputs, dtype)))


def derivatives(call, table, factors):
    """Return a result, its gradients, and those of the first one."""
    tensors = [table.requires_grad_(), factors.requires_grad_()]
    result = call(*tensors)
    torch.manual_seed(3)
    grad = torch.randn(result.shape).to(table.dtype).requires_grad_()
    first = torch.autograd.grad(result, tensors, grad, create_graph=True, allow_unused=True)
    (second,) = torch.autograd.grad(first[0], grad, torch.randn(ROWS, COLUMNS).to(table.dtype))
    return [result, *[each for each in first if each is not None], second]


@pytest.mark.parametrize("given", [{}, {"padding_idx": 7}], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_so_have_gradients_and_those_of_gradients(dtype, given, take_the_way_of_large_calls):
    found = []
    for mode, is_matrix, index_dtype in CASES:
        inputs = inputs_of(index_dtype, is_matrix)
        call = call_of(mode, inputs, **given)
        made = [derivatives(call, table_of(dtype), factors_of(inputs, dtype)) for _ in range(3)]
        found.append(made[-1])
    take_the_way_of_large_calls()
    for (mode, is_matrix, index_dtype), got in zip(CASES, found, strict=True):
        inputs = inputs_of(index_dtype, is_matrix)
        expected = derivatives(call_of(mode, inputs, **given), table_of(dtype), factors_of(inputs, dtype))
        for each, wanted in zip(got, expected, strict=True):
            assert_same(each, wanted)


@pytest.mark.parametrize("mode", MODES)
def test_the_forward_of_a_gradient_is_found_too(mode, monkeypatch):
    for dtype, is_matrix in itertools.product(("float32", "float64", "bfloat16"), (True, False)):
        inputs = inputs_of("int64", is_matrix)
        call, table, factors = call_of(mode, inputs), table_of(dtype).requires_grad_(), factors_of(inputs, dtype)
        for _ in range(2):
            call(table, factors)
        with monkeypatch.context() as patched:
            for name in ("gather_reduce", "reduced_few", "rows_of_largest_in"):
                patched.setattr(torch_bag_operators, name, None)
            call(table, factors)


def test_a_table_that_changes_before_the_backward_pass_of_a_maximum_changes_no_gradient():
    inputs, table = inputs_of("int64", False), table_of("float32").requires_grad_()
    expected = derivatives(call_of("max", inputs), table_of("float32"), torch.zeros(1))[1]
    for _ in range(2):
        result = call_of("max", inputs)(table, None)
        with torch.no_grad():
            table.mul_(-1)
        torch.manual_seed(3)
        (grad,) = torch.autograd.grad(result, table, torch.randn(result.shape))
        assert_same(grad, expected)
        table = table_of("float32").requires_grad_()


def test_the_last_offset_counts_as_true_whatever_its_type():
    index, table = torch.arange(6), torch.arange(12.0).reshape(6, 2)
    offsets = torch.tensor([0, 2, 5])
    expected = torch.nn.functional.embedding_bag(index[:5], table, offsets, include_last_offset=True)
    for _ in range(3):
        assert torch.equal(gnt.embedding_bag(index, table, offsets, include_last_offset=1), expected)
        assert gnt.embedding_bag(index, table, offsets, include_last_offset=0).shape == (3, 2)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("is_derived", [False, True])
def test_errors_of_a_repeated_call_are_those_of_the_first_one(mode, is_derived):
    table = table_of("bfloat16").requires_grad_(is_derived)
    (index, offsets), (matrix, _) = inputs_of("int32", False), inputs_of("int32", True)
    for _ in range(3):
        gnt.embedding_bag(index, table, offsets, mode=mode), gnt.embedding_bag(matrix, table, mode=mode)
    for wrong in (index + ROWS, index - ROWS):
        with pytest.raises(gn.BoundsError, match="of input is out of range"):
            gnt.embedding_bag(wrong, table, offsets, mode=mode)
    with pytest.raises(gn.BoundsError, match="of input is out of range"):
        gnt.embedding_bag(matrix + ROWS, table, mode=mode)
    with pytest.raises(gn.InvalidGatherError, match="offsets must begin with 0"):
        gnt.embedding_bag(index, table, torch.tensor([1, 3]).int(), mode=mode)
    with pytest.raises(gn.InvalidGatherError, match="offsets must not fall"):
        gnt.embedding_bag(index, table, torch.tensor([0, 9, 5, 9, 9, 9]).int(), mode=mode)
    with pytest.raises(gn.InvalidGatherError, match="offsets must have rank 1"):
        gnt.embedding_bag(matrix[0], table, mode=mode)
    with pytest.raises(gn.InvalidGatherError, match="offsets must be None"):
        gnt.embedding_bag(matrix, table, offsets, mode=mode)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("is_derived", [False, True])
def test_other_weights_of_a_repeated_call_are_errors_or_functions_of_their_own(mode, is_derived):
    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is gnt.embedding_bag:
                return "its own"
            return super().__torch_function__(func, types, args, kwargs)

    table = table_of("float32").requires_grad_(is_derived)
    index, offsets = inputs_of("int64", False)
    for _ in range(3):
        gnt.embedding_bag(index, table, offsets, mode=mode)
    assert gnt.embedding_bag(index, table.as_subclass(Named), offsets, mode=mode) == "its own"
    for wrong in (table.detach().to("meta"), table.detach().to_sparse()):
        with pytest.raises(gn.InvalidGatherError, match="weight"):
            gnt.embedding_bag(index, wrong.requires_grad_(is_derived), offsets, mode=mode)


@pytest.mark.parametrize("padding", [np.int64(1), torch.tensor(1)], ids=["numpy", "torch"])
def test_padding_is_any_integer(padding):
    table, (index, offsets) = table_of("float32").nan_to_num(), inputs_of("int64", False)
    for _ in range(3):
        ours = gnt.embedding_bag(index, table, offsets, mode="sum", padding_idx=padding)
        assert torch.equal(ours, gnt.embedding_bag(index, table, offsets, mode="sum", padding_idx=1))
        assert torch.equal(gnt.embedding(index, table, padding_idx=padding), table[index])
    for function in (partial(gnt.embedding_bag, offsets=offsets), gnt.embedding):
        with pytest.raises(gn.InvalidGatherError, match=r"padding_idx must be an int, got 1\.0"):
            function(index, table, padding_idx=1.0)


def test_calls_are_found_when_the_keys_of_others_were_many():
    table, (matrix, _) = table_of("float32"), inputs_of("int64", True)
    for number in range(MOST_REMEMBERED + 1):
        one_object(("another", number))
    for _ in range(4):
        gnt.embedding_bag(matrix, table, mode="sum")
    assert torch_bag_operators.found_bags(table, matrix, None, None, "sum", False, None, True) is not None


def test_a_call_of_gathernest_that_is_like_it_is_another():
    table, index = torch.arange(15.0).reshape(5, 3), torch.tensor([4, 0, 3])
    for _ in range(3):
        gn.gather_reduce(table.numpy(), index.numpy().view("u8"))
    with pytest.raises(gn.InvalidGatherError, match="offsets must have rank 1"):
        gnt.embedding_bag(index, table, mode="sum")


def test_nothing_is_leaked_by_repeated_calls():
    index, offsets = inputs_of("int32", False)
    table, factors = table_of("bfloat16"), factors_of((index, None), "bfloat16")
    kept = index, offsets, table, factors

    def run():
        for mode in MODES:
            call_of(mode, (index, offsets))(table, factors)
            with pytest.raises(gn.BoundsError):
                call_of(mode, (index.add(99), offsets))(table, factors)

    for _ in range(3):
        run()
    gc.collect()
    counts = [sys.getrefcount(each) for each in kept]
    tracemalloc.start()
    for _ in range(50):
        run()
    gc.collect()
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_bytes < 30_000  # the rows of these calls have 60,000
    assert [sys.getrefcount(each) for each in kept] == counts


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_matrix", [True, False])
def test_gradients_of_few_weighted_rows_have_those_bytes_for_every_length(dtype, is_matrix):
    index, offsets = inputs_of("int64", is_matrix)
    factors = factors_of((index, offsets), dtype)
    for columns in (1, 8, 64, 257, 1000):
        torch.manual_seed(4)
        table, grad = (torch.randn(rows, columns).to(factors.dtype) for rows in (ROWS, 6))
        found = [
            torch_bag_operators._factors_backward(grad, table, index, offsets),
            torch_bag_operators._backward(grad, index, offsets, factors, ROWS, False),
        ]
        given = [None if each is None else each.numpy() for each in (index, offsets)]
        grad, table, weights = (
            each.float().numpy() if dtype == "bfloat16" else each.numpy() for each in (grad, table, factors)
        )
        wanted = [
            gn.gather_reduce_weights_grad(grad, table, *given),
            gn.gather_reduce_grad(grad, given[0], (ROWS, columns), given[1], weights=weights),
        ]
        for each, expected in zip(found, wanted, strict=True):
            assert_same(each, torch.from_numpy(expected).to(each.dtype))


@pytest.mark.parametrize("given", [{}, {"padding": 7}, {"has_last": True}, {"padding": 3, "has_last": True}], ids=str)
@pytest.mark.parametrize("index_dtype", ["int64", "int32"])
def test_gradients_of_few_factors_and_rows_are_those_of_large_calls(given, index_dtype, take_the_way_of_large_calls):
    has_last, padding = given.get("has_last", False), given.get("padding", -1)
    index, offsets = inputs_of(index_dtype, is_matrix=False)
    if has_last:
        offsets = torch.cat([offsets, torch.tensor([len(index) - 2], dtype=offsets.dtype)])
    factors, table, grad = factors_of((index, offsets), "float32"), table_of("float32"), torch.randn(6, COLUMNS)
    empty = index[:0], offsets[:1]

    def both():
        yield torch_bag_operators._factors_backward(grad, table, index, offsets, has_last, padding)
        yield torch_bag_operators._backward(grad, index, offsets, factors, ROWS, False, has_last, padding)
        yield torch_bag_operators._factors_backward(grad[:1], table, *empty)
        yield torch_bag_operators._backward(grad[:1], *empty, factors[:0], ROWS, False)

    found = list(both())
    take_the_way_of_large_calls()
    for got, wanted in zip(found, both(), strict=True):
        assert_same(got.clone(memory_format=torch.contiguous_format), wanted)  # strides of nothing may be any


@pytest.mark.parametrize("outside", [-1, ROWS])
def test_the_gradient_of_few_factors_rejects_an_index_outside(outside):
    index, offsets = torch.tensor([0, outside]), torch.tensor([0])
    with pytest.raises(gn.BoundsError, match=f"index {outside} "):
        torch_bag_operators.FACTORS_BACKWARD(torch.ones(1, COLUMNS), table_of("float32"), index, offsets, False, -1)


def test_the_gradient_of_factors_of_wide_rows_is_made_in_blocks(monkeypatch):
    monkeypatch.setattr(torch_bag_operators, "factors_of_few", None)
    table, grad = torch.ones(4, 2**17), torch.ones(1, 2**17)
    got = torch_bag_operators._factors_backward(grad, table, torch.tensor([0, 3, 3]), torch.tensor([0]))
    assert got.tolist() == [2.0**17] * 3
