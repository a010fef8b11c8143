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
    "embedding, padding": (EMBEDDING, lambda table, index: gnt.embedding(index[:, :1].contiguous(), table, -1)),
}


def table_of(dtype="float32", rows=ROWS):
    torch.manual_seed(0)
    table = torch.randn(rows, COLUMNS).to(getattr(torch, dtype))
    return table.requires_grad_()


def bytes_of(tensor):
    """Return the bytes of a tensor, of narrow floats with one NaN: torch's conversions give several, by the place."""
    tensor = tensor.detach()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.masked_fill(tensor.isnan(), float("nan"))
    return tensor.contiguous().view(torch.uint8)


def index_of(count=18, dtype="int64"):
    """Return indices of which some are used often, some never, and the last row is looked up."""
    torch.manual_seed(1)
    index = torch.randint(0, ROWS, (count, COLUMNS)) ** 2 // ROWS
    index[0, 0] = ROWS - 1
    return index.to(getattr(torch, dtype))


def derivatives(call, table, index):
    """Return a result, its gradient, and the gradient of that, for elements of all magnitudes and signs of zero."""
    result = call(table, index)
    exponent = 4 if table.dtype in (torch.bfloat16, torch.float16) else 30
    grad = torch.randn(result.shape, dtype=table.dtype)
    grad.mul_((torch.tensor(10.0) ** torch.randint(-exponent, exponent, result.shape)).to(table.dtype))
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


def derivatives_of_all(operator, call, dtype, index, monkeypatch):
    """Return results and derivatives by torch and by our own function, each with one thread and with two."""
    torch.manual_seed(2)
    state = torch.get_rng_state()
    found, threads, torchs = [], torch.get_num_threads(), operator._own
    for own, count in ((torchs, 1), (torchs, 2), (None, 1), (None, 2)):
        monkeypatch.setattr(operator, "_own", own)
        torch.set_rng_state(state)
        torch.set_num_threads(count)
        try:
            with gn.knobs.scope(num_threads=count):
                found.append(derivatives(call, table_of(dtype), index))
        finally:
            torch.set_num_threads(threads)
    monkeypatch.setattr(operator, "_own", torchs)
    return found


def assert_same_bytes(found):
    for each in found[1:]:
        for wanted, got in zip(found[0], each, strict=True):
            assert wanted.stride() == got.stride()
            assert torch.equal(bytes_of(wanted), bytes_of(got))


DTYPES = ("float32", "float64", "bfloat16", "float16", "complex64", "complex128")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("embedding")])
def test_bytes_of_gradients_are_the_same_by_torch_and_by_our_own(name, dtype, monkeypatch):
    for index_dtype in ("int64", "int32"):
        found = derivatives_of_all(*CALLS[name], dtype, index_of(dtype=index_dtype), monkeypatch)
        is_torchs = name.startswith("gather") or dtype in DTYPES[:4]
        assert [by_torch(each[0]) for each in found] == [is_torchs, is_torchs, False, False]
        assert_same_bytes(found)


@pytest.mark.parametrize("dtype", DTYPES[:4])
@pytest.mark.parametrize("name", ["embedding", "embedding, padding"])
def test_so_are_those_of_rows_of_narrow_floats_where_no_row_is_looked_up_twice(name, dtype, monkeypatch):
    torch.manual_seed(5)
    index = torch.randperm(ROWS)[: 5 * COLUMNS].reshape(-1, COLUMNS)
    found = derivatives_of_all(*CALLS[name], dtype, index, monkeypatch)
    assert [by_torch(each[0]) for each in found] == [True, True, False, False]
    assert_same_bytes(found)
    found = derivatives_of_all(*CALLS[name], dtype, index_of(), monkeypatch)
    assert [by_torch(each[0]) for each in found] == [dtype in DTYPES[:2]] * 2 + [False] * 2
    assert_same_bytes(found)


@pytest.mark.parametrize("index_dtype", ["int64", "int32"])
@pytest.mark.parametrize("dtype", DTYPES[2:4])
def test_so_are_those_of_rows_of_narrow_floats_by_one_dimension(dtype, index_dtype, monkeypatch):
    index = index_of(dtype=index_dtype)[:, 0]
    assert len(index.unique()) < len(index)

    def call(table, index):
        return gnt.embedding(index, table)

    found = derivatives_of_all(SELECT, call, dtype, index, monkeypatch)
    assert [by_torch(each[0]) for each in found] == [True, True, False, False]
    assert_same_bytes(found)


@pytest.mark.parametrize("dtype", DTYPES[2:4])
@pytest.mark.parametrize("columns", [1, 2, 33, 700])
@pytest.mark.parametrize("name", ["index_select", "gather"])
def test_narrow_floats_are_added_in_float32_by_torch_too(name, columns, dtype, monkeypatch):
    """Or they are ours: torch has other loops for each rank, dimension and index type."""
    operator, _ = CALLS[name]
    torch.manual_seed(6)
    for shape, dim in (((5, columns), 0), ((columns, 5), 1), ((3, 5, columns), 1), ((2, 3, columns, 5), 3), ((5,), 0)):
        index = torch.randint(
            0, 3, (20,) if name == "index_select" else (*[1] * dim, 20, *[1] * (len(shape) - dim - 1))
        )
        own, found = operator._own, []
        for each in (own, None):
            monkeypatch.setattr(operator, "_own", each)
            table = torch.zeros(shape[::-1], dtype=getattr(torch, dtype)).permute(*range(len(shape) - 1, -1, -1))
            result = getattr(gnt, name)(table.requires_grad_(), dim, index)
            torch.manual_seed(7)
            grad = torch.randn(result.shape) * 10.0 ** torch.randint(-3, 3, result.shape)
            found.append(torch.autograd.grad(result, table, grad.to(table.dtype)))
        monkeypatch.setattr(operator, "_own", own)
        assert_same_bytes(found)


def test_narrow_scalars_are_torchs_where_no_index_is_there_twice():
    table = torch.zeros(9, dtype=torch.bfloat16, requires_grad=True)
    for _ in range(2):
        assert by_torch(gnt.index_select(table, 0, torch.tensor([3, 1, 2])))
        assert by_torch(gnt.gather(table, 0, torch.tensor([3, 1, 3])))
        for index in (torch.tensor([3, 1, 3]), torch.tensor([3, 0, 1, 0])[::2], torch.tensor([3, 3]).int()):
            assert not by_torch(gnt.index_select(table, 0, index))


def test_indices_that_have_the_same_lowest_bits_count_as_equal():
    table = torch.zeros(8192, 1, dtype=torch.float16, requires_grad=True)
    for _ in range(2):
        assert not by_torch(gnt.embedding(torch.tensor([[1, 4097]]), table))
        assert by_torch(gnt.embedding(torch.tensor([[1, 4096, 0, 64, 4094, 4095, 65, 63]]), table)) is False
        assert by_torch(gnt.embedding(torch.tensor([[1, 4098, 2049, 0, 64, 4094, 4095, 65, 63]]), table))


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
    assert not by_torch(gnt.index_select(table_of("float8_e5m2"), 0, few))
    for dtype in (torch.uint8, torch.int16, torch.uint32):
        assert not by_torch(gnt.index_select(table_of(), 0, few.to(dtype)))


def test_an_int32_row_outside_is_named_where_another_is_there_twice():
    table, index = table_of("bfloat16"), torch.tensor([3, 3], dtype=torch.int32)
    for _ in range(2):
        assert by_torch(gnt.embedding(index, table))
        for number in (ROWS, -1):
            with pytest.raises(gn.BoundsError, match=f"index {number} at position"):
                gnt.embedding(torch.tensor([3, 3, number], dtype=torch.int32), table)


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


@pytest.mark.parametrize("name", ["index_select", "gather", "embedding"])
def test_indices_that_are_no_tensor_of_integers_are_named_where_a_gradient_is_wanted(name):
    def call(index):
        return gnt.embedding(index, table_of()) if name == "embedding" else getattr(gnt, name)(table_of(), 0, index)

    for index in (index_of()[:, 0].numpy(), [1, 2], None):
        with pytest.raises(gn.InvalidGatherError, match=r"must be a torch\.Tensor, got"):
            call(index)
    with pytest.raises(gn.IndexTypeError, match=r"must be a tensor of integers, got torch\.float32"):
        call(torch.zeros(3))


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
