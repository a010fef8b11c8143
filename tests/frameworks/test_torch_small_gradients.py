"""Small calls of `gathernest.torch` with a gradient are torch's own, and have the bytes of ours."""

import pytest

import gathernest as gn

torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("this version of torch has no C functions of DLPack", allow_module_level=True)

from gathernest.kernels.frameworks.torch_embedding import EMBEDDING  # noqa: E402
from gathernest.kernels.frameworks.torch_operators import GATHER, SELECT  # noqa: E402

ROWS, COLUMNS = 40, 7
CALLS = {
    "index_select": (SELECT, lambda table, index: gnt.index_select(table, 0, index[:, 0])),
    "index_select, last dim": (SELECT, lambda table, index: gnt.index_select(table, -1, index[:, 0] % COLUMNS)),
    "gather": (GATHER, lambda table, index: gnt.gather(table, 0, index)),
    "gather, last dim": (GATHER, lambda table, index: gnt.gather(table, 1, index[:ROWS] % COLUMNS)),
    "embedding": (EMBEDDING, lambda table, index: gnt.embedding(index, table)),
    "embedding, padding": (EMBEDDING, lambda table, index: gnt.embedding(index[:, :1], table, -1)),
}


def table_of(dtype="float32", rows=ROWS):
    torch.manual_seed(0)
    table = torch.randn(rows, COLUMNS).to(getattr(torch, dtype))
    return table.requires_grad_()


def index_of(count=18, dtype="int64"):
    """Return indices of which some are used often, some never, and the last row is looked up."""
    torch.manual_seed(1)
    index = torch.randint(0, ROWS, (count, COLUMNS)) ** 2 // ROWS
    index[0, 0] = ROWS - 1
    return index.to(getattr(torch, dtype))


def derivatives(call, table, index):
    """Return a result, its gradient, and the gradient of that, for elements of all magnitudes and signs of zero."""
    result = call(table, index)
    grad = torch.randn(result.shape, dtype=table.dtype).mul_(torch.tensor(10.0) ** torch.randint(-30, 30, result.shape))
    grad.view(-1)[::5], grad.view(-1)[3] = -0.0, float("inf")
    grad.requires_grad_()
    (first,) = torch.autograd.grad(result, table, grad, create_graph=True)
    (second,) = torch.autograd.grad(first, grad, torch.randn_like(first))
    return result, first, second


@pytest.fixture(autouse=True)
def called_before():
    for _, call in CALLS.values():
        call(table_of(), index_of())


def by_torch(result):
    return not type(result.grad_fn).__name__.startswith("gathernest")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_bytes_of_gradients_are_the_same_by_torch_and_by_our_own(name, dtype, monkeypatch):
    operator, call = CALLS[name]
    torch.manual_seed(2)
    state = torch.get_rng_state()
    found, threads = [], torch.get_num_threads()
    for own, count in ((operator._own, 1), (operator._own, 2), (None, 1), (None, 2)):
        monkeypatch.setattr(operator, "_own", own)
        torch.set_rng_state(state)
        torch.set_num_threads(count)
        try:
            with gn.knobs.scope(num_threads=count):
                found.append(derivatives(call, table_of(dtype), index_of(dtype="int32")))
        finally:
            torch.set_num_threads(threads)
    assert [by_torch(each[0]) for each in found] == [True, True, False, False]
    for each in found[1:]:
        for wanted, got in zip(found[0], each, strict=True):
            assert wanted.stride() == got.stride()
            assert torch.equal(wanted.detach().view(torch.uint8), got.detach().view(torch.uint8))


def test_calls_of_more_or_of_other_elements_are_ours():
    few, many = torch.zeros(128, dtype=torch.int64), torch.zeros(129, dtype=torch.int64)
    assert by_torch(gnt.index_select(table_of(), 0, few))
    assert not by_torch(gnt.index_select(table_of(), 0, many))
    assert by_torch(gnt.embedding(few, table_of()))
    assert not by_torch(gnt.embedding(many, table_of()))
    table = torch.zeros(1025, 1, requires_grad=True)
    assert by_torch(gnt.gather(table, 0, torch.zeros(1024, 1, dtype=torch.int64)))
    assert not by_torch(gnt.gather(table, 0, torch.zeros(1025, 1, dtype=torch.int64)))
    assert by_torch(gnt.index_select(table_of(rows=37_449), 0, few))
    assert not by_torch(gnt.index_select(table_of(rows=37_450), 0, few))
    for dtype in ("bfloat16", "float16", "complex64"):
        assert not by_torch(gnt.index_select(table_of(dtype), 0, few))
    for dtype in (torch.uint8, torch.int16, torch.uint32):
        assert not by_torch(gnt.index_select(table_of(), 0, few.to(dtype)))


def test_an_embedding_that_scales_by_frequency_is_ours():
    index = index_of()
    for _ in range(2):
        assert by_torch(gnt.embedding(index, table_of()))
        assert not by_torch(gnt.embedding(index, table_of(), scale_grad_by_freq=True))


def test_sparse_gradient_of_a_small_embedding_is_that_of_torch():
    index, table = index_of(), table_of()
    gnt.embedding(index, table, 3, sparse=True).sum().backward()
    other = table_of()
    torch.nn.functional.embedding(index, other, 3, sparse=True).sum().backward()
    assert table.grad.is_sparse
    assert torch.equal(table.grad.to_dense(), other.grad.to_dense())
    assert torch.equal(table.grad._indices(), other.grad._indices())


ERRORS = {
    "a slice": (lambda index: gnt.index_select(table_of(), 0, index[0] + ROWS), "index 79 at position"),
    "an element": (lambda index: gnt.gather(table_of(), 0, index - ROWS), "pass index % 40"),
    "a row": (lambda index: gnt.embedding(index, table_of(rows=39)), "index 39 at position"),
    "rank": (lambda index: gnt.index_select(table_of(), 0, index), "index must have rank 1 or 0"),
    "dim": (lambda index: gnt.index_select(table_of(), True, index[0]), "dim must be an int, got True"),
    "size": (lambda index: gnt.gather(table_of(rows=5), 1, index % 5), "index must not be larger than input off dim 1"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_its_errors_are_ours(name):
    call, text = ERRORS[name]
    with pytest.raises(gn.GathernestError, match=text):
        call(index_of())


@pytest.mark.parametrize("name", CALLS)
def test_a_mode_of_functions_sees_every_call(name):
    from torch.overrides import TorchFunctionMode

    seen = []

    class Watching(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    _, call = CALLS[name]
    for table in (table_of(), table_of().detach()):
        index = index_of()
        for _ in range(2):
            call(table, index)
            with Watching():
                call(table, index)
            assert getattr(gnt, name.split(",")[0]) in seen
            seen.clear()
