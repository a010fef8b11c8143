"""`gathernest.torch.index_add` gives what `torch.index_add` gives."""

import pytest

import gathernest as gn

torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")
from gathernest.kernels.frameworks import torch_index_add  # noqa: E402
from gathernest.kernels.runtime.call_cache import CALLS, MOST_REMEMBERED, one_object  # noqa: E402

INDEX = torch.tensor([4, 0, 4, 3])
DTYPES = ("uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64")


def arguments(dtype=torch.float32, shape=(5, 3), dim=0):
    """Return small whole numbers, whose sums are exact in every dtype."""
    input = torch.arange(torch.Size(shape).numel()).reshape(shape)
    source = torch.index_select(input, dim, INDEX % shape[dim]) + 1
    return input.to(dtype), dim, INDEX % shape[dim], source.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_results_of_index_add_are_those_of_torch(dtype):
    for shape, dim in (((5, 3), 0), ((2, 5), -1), ((2, 5, 3), 1), ((5,), 0)):
        for alpha in (1, 3):
            given = arguments(getattr(torch, dtype), shape, dim)
            ours, theirs = (each(*given, alpha=alpha) for each in (gnt.index_add, torch.index_add))
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours, theirs)
            assert ours.is_contiguous()


def test_index_add_reads_strided_tensors_scalars_and_no_indices():
    input, dim, index, source = arguments()
    wide = torch.zeros(6, 10).t()[::2, ::2]
    assert torch.equal(gnt.index_add(wide, 0, index.int(), source), torch.index_add(wide, 0, index, source))
    one, nothing = torch.tensor(2.0), index[:0]
    assert gnt.index_add(one, 0, torch.tensor(0), one) == 4
    assert gnt.index_add(one, 0, torch.tensor([0]), one).shape == ()
    assert torch.equal(gnt.index_add(input, 0, nothing, source[:0]), input)
    assert torch.equal(gnt.index_add(input[:, :0], dim, index, source[:, :0]), input[:, :0])


def test_narrow_floats_of_index_add_are_rounded_once():
    input, source = torch.tensor([256.0]).bfloat16(), torch.ones(4).bfloat16()
    index = torch.zeros(4, dtype=torch.int64)
    assert gnt.index_add(input, 0, index, source).item() == 260
    assert torch.index_add(input, 0, index, source).item() == 256  # each 1 is rounded away


def test_out_of_index_add_is_written_and_may_be_its_input():
    given = arguments()
    expected = torch.index_add(*given)
    for out in (torch.empty(5, 3), torch.empty(0), torch.empty(3, 5).t(), given[0]):
        before = out._version
        assert gnt.index_add(*given, out=out) is out
        assert torch.equal(out, expected)
        assert out._version > before


def test_gradients_of_index_add_are_those_of_torch_and_can_be_derived_again():
    table, dim, index, source = arguments(torch.float64)
    for alpha in (1, 0.5):
        grads = []
        for each in (gnt.index_add, torch.index_add):
            tensors = [tensor.clone().requires_grad_() for tensor in (table, source)]
            each(tensors[0], dim, index, tensors[1], alpha=alpha).pow(2).sum().backward()
            grads.append([tensor.grad for tensor in tensors])
        assert all(map(torch.equal, *grads))

        def added(table, source, alpha=alpha):
            return gnt.index_add(table, dim, index, source, alpha=alpha)

        tensors = [torch.rand_like(tensor).requires_grad_() for tensor in (table, source)]
        assert torch.autograd.gradcheck(added, tensors, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(added, tensors)


def test_index_add_is_registered_as_torch_wants():
    table, dim, index, source = arguments()
    operator = torch.ops.gathernest.index_add.default
    for tensors in ((table, source), (table.requires_grad_(), source.requires_grad_())):
        outcome = torch.library.opcheck(operator, (tensors[0], dim, index, tensors[1], 2))
        assert set(outcome.values()) == {"SUCCESS"}


def test_compiled_and_transformed_index_add_gives_the_same():
    given = arguments()
    compiled = torch.compile(lambda *each: gnt.index_add(*each, alpha=2), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*given), torch.index_add(*given, alpha=2))
    table, dim, index, source = given
    tables = torch.stack([table, table + 1])
    ours, theirs = (
        torch.func.vmap(lambda each, function=function: function(each, dim, index, source))(tables)
        for function in (gnt.index_add, torch.index_add)
    )
    assert torch.equal(ours, theirs)


def test_index_add_has_the_same_bytes_for_one_and_two_threads():
    torch.manual_seed(0)
    input, source, index = torch.randn(500, 64), torch.randn(40_000, 64), torch.randint(0, 500, (40_000,))
    results = []
    for threads in (1, 2):
        with gn.knobs.scope(num_threads=threads):
            results.append(gnt.index_add(input, 0, index, source))
    assert torch.equal(*results)
    torch.testing.assert_close(
        results[0].double(), torch.index_add(input.double(), 0, index, source.double()), rtol=1e-4, atol=1e-4
    )


@pytest.mark.skipif(not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="torch has no C functions of DLPack")
def test_calls_of_index_add_are_found_again_after_the_call_cache_forgot_them():
    given = arguments()
    for _ in range(3):
        gnt.index_add(*given)
    CALLS.forget()
    for number in range(MOST_REMEMBERED + 1):
        one_object(("another", number))
    for _ in range(3):
        gnt.index_add(*given)
    gnt.index_add(*arguments(shape=(5, 4)))  # not found
    assert torch.equal(torch_index_add._found(*given, 1), torch.index_add(*given))


TABLE, _, _, SOURCE = arguments()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: gnt.index_add(TABLE, 0, INDEX + 1, SOURCE),
            gn.BoundsError,
            "index 5 at position (0,) of index is out",
        ),
        (lambda: gnt.index_add(TABLE, 0, INDEX - 5, SOURCE), gn.BoundsError, "index -1 at position (0,)"),
        (lambda: gnt.index_add(TABLE, 2, INDEX, SOURCE), gn.InvalidGatherError, "dim 2 is out of range [-2, 1]"),
        (lambda: gnt.index_add(TABLE, 0, INDEX[None], SOURCE), gn.InvalidGatherError, "index must have rank 1 or 0"),
        (
            lambda: gnt.index_add(TABLE, 0, INDEX.float(), SOURCE),
            gn.IndexTypeError,
            "index must be a tensor of integers",
        ),
        (lambda: gnt.index_add(TABLE, 0, INDEX, SOURCE[:3]), gn.InvalidGatherError, "source must have shape (4, 3)"),
        (lambda: gnt.index_add(TABLE, 0, INDEX, SOURCE.double()), gn.InvalidGatherError, "must have one dtype"),
        (
            lambda: gnt.index_add(TABLE > 0, 0, INDEX, SOURCE > 0),
            gn.InvalidGatherError,
            "must have one dtype, integers",
        ),
        (
            lambda: gnt.index_add(TABLE.int(), 0, INDEX, SOURCE.int(), alpha=0.5),
            gn.InvalidGatherError,
            "alpha must be a whole number from -2147483648 to 2147483647 for torch.int32, got 0.5",
        ),
        (
            lambda: gnt.index_add(TABLE.byte(), 0, INDEX, SOURCE.byte(), alpha=300),
            gn.InvalidGatherError,
            "alpha must be a whole number from -255 to 255 for torch.uint8, got 300",
        ),
        (lambda: gnt.index_add(TABLE, 0, INDEX, SOURCE, alpha=1e39), gn.InvalidGatherError, "alpha must be at most"),
        (lambda: gnt.index_add(TABLE, 0, INDEX, SOURCE, alpha="x"), gn.InvalidGatherError, "alpha must be a number"),
        (lambda: gnt.index_add(TABLE, 0, INDEX, SOURCE, alpha=2**70), gn.InvalidGatherError, "of at most 64 bits"),
        (lambda: gnt.index_add(TABLE, 0, INDEX, SOURCE, alpha=1j), gn.InvalidGatherError, "alpha must be real"),
        (
            lambda: gnt.index_add(TABLE[0, 0], 0, INDEX[:2], SOURCE[0, :2]),
            gn.InvalidGatherError,
            "source must have shape ()",
        ),
        (
            lambda: gnt.index_add(TABLE, 0, INDEX, SOURCE, out=TABLE.double()),
            gn.InvalidGatherError,
            "out must have dtype torch.float32",
        ),
        (
            lambda: gnt.index_add(TABLE, 0, INDEX, SOURCE, out=TABLE[:4].clone()),
            gn.InvalidGatherError,
            "out must have shape (5, 3), or no elements",
        ),
        (
            lambda: gnt.index_add(TABLE, 0, INDEX, SOURCE.clone().requires_grad_(), out=torch.empty(5, 3)),
            gn.InvalidGatherError,
            "out cannot be used where a gradient is wanted",
        ),
        (lambda: gnt.index_add(TABLE.numpy(), 0, INDEX, SOURCE), gn.InvalidGatherError, "input must be a torch.Tensor"),
        (
            lambda: gnt.index_add(TABLE, 0, INDEX, SOURCE.to_sparse()),
            gn.InvalidGatherError,
            "source of gathernest.torch",
        ),
    ],
)
def test_wrong_arguments_of_index_add_are_named(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert message in str(raised.value)


def of_all(input, dim, index, source):
    """Return the result of a call, its gradients and that of one of them, for numbers of all magnitudes."""
    result = gnt.index_add(input, dim, index, source)
    torch.manual_seed(1)
    grad = torch.randn(result.shape).to(result.dtype).requires_grad_()
    by_input, by_source = torch.autograd.grad(result, (input, source), grad, create_graph=True)
    return result, by_input, by_source, *torch.autograd.grad(by_source, grad, by_source.detach())


@pytest.mark.skipif(not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="it has no C functions of DLPack")
@pytest.mark.parametrize("index_dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("dtype", DTYPES[3:])
def test_a_repeated_call_of_index_add_is_found_and_has_the_bytes_of_the_first_one(dtype, index_dtype, monkeypatch):
    torch.manual_seed(0)
    index = torch.tensor([4, 0, 4, 3], dtype=index_dtype)
    for shape, dim, place in (((5, 3), 0, 0), ((2, 5), -1, 1), ((2, 5, 3), 1, 1), ((5,), 0, 0)):
        input = torch.randn(shape).to(getattr(torch, dtype))
        source = torch.randn(*shape[:place], 4, *shape[place + 1 :]).to(input.dtype)
        input.view(-1)[1], source.view(-1)[::2] = -0.0, -0.0
        given = input, dim, index, source
        with monkeypatch.context() as patched:
            patched.setattr(torch_index_add, "_found", lambda *arguments: None)
            expected = gnt.index_add(*given), *of_all(input.requires_grad_(), dim, index, source.requires_grad_())
        before = input._version
        gnt.index_add(*given)
        with monkeypatch.context() as patched:
            patched.setattr(torch_index_add, "_added", None)
            got = gnt.index_add(input.detach(), dim, index, source.detach())
            for each, wanted in zip((got, *of_all(*given)), expected, strict=True):
                assert each.dtype == wanted.dtype
                assert torch.equal(each.detach().view(torch.uint8), wanted.detach().view(torch.uint8))
        assert input._version == before


def test_a_repeated_call_of_index_add_has_the_errors_of_the_first_one():
    input, dim, index, source = arguments()
    for _ in range(3):
        torch.ops.gathernest.embedding_dense_backward(torch.zeros(4, 2, 3), torch.zeros(4, 2, dtype=torch.int64), 5)
        gnt.index_add(input, dim, index, source)
    with pytest.raises(gn.BoundsError, match="index 5 at position"):
        gnt.index_add(input, dim, index + 1, source)
    with pytest.raises(gn.InvalidGatherError, match="index must have rank 1 or 0"):
        gnt.index_add(input, dim, torch.zeros(4, 2, dtype=torch.int64), torch.zeros(4, 2, 3))
    with pytest.raises(gn.InvalidGatherError, match="source must have shape"):
        gnt.index_add(input, dim, index, source[:, :2])
    with pytest.raises(gn.InvalidGatherError, match="one dtype"):
        gnt.index_add(input.double(), dim, index, source)
    with pytest.raises(gn.InvalidGatherError, match="meta, which has no elements"):
        gnt.index_add(input.to("meta"), dim, index, source)
    with pytest.raises(gn.InvalidGatherError, match=r"of layout torch\.sparse_coo"):
        gnt.index_add(input.to_sparse(), dim, index, source)


@pytest.mark.parametrize("alpha", [float("inf"), float("-inf"), float("nan")])
def test_rows_without_an_index_stay_with_an_alpha_that_is_not_finite(alpha):
    given = torch.zeros(3, 2), 0, torch.tensor([1, 1]), torch.tensor([[1.0, 0.0], [-1.0, 2.0]])
    ours, theirs = (add(*given, alpha=alpha) for add in (gnt.index_add, torch.index_add))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64])
def test_whole_alphas_of_integers_are_torchs(dtype):
    given = torch.ones(3, 2, dtype=dtype), 0, torch.tensor([1]), torch.full((1, 2), 3, dtype=dtype)
    for alpha in (2.0, -1, True):
        assert torch.equal(gnt.index_add(*given, alpha=alpha), torch.index_add(*given, alpha=alpha))
