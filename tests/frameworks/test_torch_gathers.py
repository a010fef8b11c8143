"""The functions of `gathernest.torch` give what torch's own give, in place and with the same gradients."""

import pytest

import gathernest as gn

torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")

NUMBERS = ("uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
DTYPES = ("bool", "complex64", *NUMBERS)
SLICES = torch.tensor([4, 0, 0, 3, 4])
ELEMENTS = torch.tensor([[1, 0, 2], [4, 4, 0]])
CALLS = {
    "index_select": lambda ours, table: ours.index_select(table, 0, SLICES),
    "index_select, last dim": lambda ours, table: ours.index_select(table, -1, SLICES[1:4] % 3),
    "gather": lambda ours, table: ours.gather(table, 0, ELEMENTS),
    "take_along_dim": lambda ours, table: ours.take_along_dim(table, torch.tensor([[-1], [2], [0], [1], [0]]), 1),
    "take_along_dim, broadcast": lambda ours, table: ours.take_along_dim(table, torch.tensor([[-5], [2]]), dim=0),
    "take_along_dim, flat": lambda ours, table: ours.take_along_dim(table, ELEMENTS),
    "embedding": lambda ours, table: (torch.nn.functional if ours is torch else ours).embedding(ELEMENTS, table),
}


@pytest.fixture(params=CALLS)
def call(request):
    return CALLS[request.param]


def a_table(dtype=torch.float32):
    return torch.arange(15).reshape(5, 3).to(dtype)


def raw(tensor):
    return tensor.contiguous().view(torch.uint8)


def test_results_are_those_of_torch_for_every_dtype(call):
    for dtype in (getattr(torch, name) for name in DTYPES):
        table = a_table(dtype)
        ours, wanted = call(gnt, table), call(torch, a_table(torch.float64)).to(dtype)
        assert ours.dtype == dtype
        assert torch.equal(raw(ours), raw(wanted)), dtype


def test_repeated_and_strided_calls_give_the_same(call):
    wide = torch.arange(60.0).reshape(10, 6)
    for table in (a_table(), wide[::2, ::2], wide.t()[:5, :3], torch.nn.Parameter(a_table())):
        with torch.no_grad():
            assert all(torch.equal(call(gnt, table), call(torch, table.clone().contiguous())) for _ in range(3))


def test_gradients_are_those_of_torch_and_can_be_derived_again(call):
    table = torch.rand(5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda each: call(gnt, each), table)
    assert torch.autograd.gradgradcheck(lambda each: call(gnt, each), table)
    grads = [torch.autograd.grad((call(ours, table) ** 2).sum(), table)[0] for ours in (gnt, torch)]
    assert torch.equal(*grads)


def test_sparse_gradient_of_gather_is_that_of_torch():
    for index in (ELEMENTS, ELEMENTS.int(), ELEMENTS):
        table, grads = torch.rand(5, 3, dtype=torch.float64), []
        for ours, wide in ((gnt, index), (torch, index.long())):
            each = table.clone().requires_grad_()
            (ours.gather(each, 0, wide, sparse_grad=True) * table[:2]).sum().backward()
            grads.append(each.grad)
        assert grads[0].layout is grads[1].layout is torch.sparse_coo
        assert all(map(torch.equal, *((grad._indices(), grad._values()) for grad in grads)))


def test_narrow_floats_are_added_in_float32():
    for dtype in (torch.bfloat16, torch.float8_e5m2):
        table = torch.zeros(2, 1, dtype=dtype, requires_grad=True)
        result = gnt.index_select(table, 0, torch.zeros(40, dtype=torch.int64))
        result.backward(torch.full((40, 1), 0.25).to(dtype))
        assert table.grad.float().tolist() == [[10], [0]]


def test_gradient_has_the_same_bytes_for_one_and_two_threads():
    index = torch.randint(0, 3000, (20_000,), generator=torch.Generator().manual_seed(0))
    grads = []
    for threads in (1, 2):
        torch.manual_seed(1)
        table = torch.zeros(3000, 64, requires_grad=True)
        with gn.knobs.scope(num_threads=threads):
            gnt.embedding(index, table).backward(torch.randn(20_000, 64))
        grads.append(table.grad)
    assert torch.equal(*grads)


def test_scalars_and_no_indices_are_those_of_torch():
    scalar, none = torch.tensor(3.0), torch.empty(0, dtype=torch.int64)
    for ours in (gnt, torch):
        assert ours.index_select(scalar, 0, torch.tensor(0)).shape == ()
        assert ours.index_select(a_table(), 1, torch.tensor(2)).shape == (5, 1)
        assert ours.gather(scalar, 0, torch.tensor([0, 0])).shape == (2,)
        assert ours.gather(a_table()[0], 0, torch.tensor(1)).shape == ()
        assert ours.gather(a_table(), 0, none).shape == (0,)
        assert ours.index_select(a_table(), 0, none).shape == (0, 3)


def test_indices_of_every_width_are_read():
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        index = SLICES.to(getattr(torch, name))
        assert torch.equal(gnt.index_select(a_table(), 0, index), a_table()[SLICES])


def test_out_is_written_in_place_and_its_version_counts():
    out = torch.empty(5, 6).t()[:5]
    out = out[:, :3]
    for table in (a_table(), a_table() + 1, a_table() + 2):  # the later ones are found in the call cache
        before = out._version
        assert gnt.index_select(table, 0, SLICES, out=out) is out
        assert torch.equal(out, table[SLICES])
        assert out._version > before
    assert gnt.gather(a_table(), 0, ELEMENTS, out=torch.empty(0)).shape == ELEMENTS.shape
    assert gnt.index_select(torch.tensor(2.0), 0, torch.tensor(0), out=torch.empty(())) == 2


def test_conjugates_are_computed():
    table = torch.tensor([1 + 2j, 3 - 1j])
    assert gnt.index_select(table.conj(), 0, torch.tensor([1])).tolist() == [3 + 1j]


def test_result_of_a_changed_saved_tensor_is_rejected():
    index, table = SLICES.clone(), a_table().requires_grad_()
    result = gnt.index_select(table, 0, index)
    index[0] = 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_out_may_be_the_input():
    table = a_table()
    assert torch.equal(gnt.index_select(table, 0, SLICES, out=table), a_table()[SLICES])


def test_out_that_is_a_negated_or_conjugate_view_gets_the_values():
    numbers = torch.zeros(5, 3, dtype=torch.complex64)
    for _ in range(3):
        assert torch.equal(gnt.index_select(a_table(), 0, SLICES, out=numbers.conj().imag), a_table()[SLICES])
        assert torch.equal(numbers.imag, -a_table()[SLICES])
        gnt.index_select(numbers + 1j, 0, SLICES, out=numbers.conj())
        assert torch.equal(numbers.imag[0], a_table()[4] - 1)


class Named(torch.Tensor):
    pass


def test_a_subclass_of_tensors_comes_back_and_may_act_itself():
    table, index = a_table().as_subclass(Named), SLICES.as_subclass(Named)
    for each, picks in ((table, SLICES), (a_table(), index)):
        for result in (
            gnt.index_select(each, 0, picks),
            gnt.gather(each, 0, picks[:3, None]),
            gnt.take_along_dim(each, picks[:, None], 0),
            gnt.embedding(picks, each),
            gnt.embedding_bag(picks[None], each, mode="max"),
        ):
            assert type(result) is Named
    assert torch.equal(gnt.index_select(table, 0, SLICES).as_subclass(torch.Tensor), a_table()[SLICES])


def test_a_scalar_has_a_sparse_gradient_as_in_torch():
    for gather in (gnt.gather, torch.gather):
        number = torch.tensor(3.0, requires_grad=True)
        gather(number, 0, torch.tensor(0), sparse_grad=True).backward()
        assert number.grad is not None and number.grad.is_sparse and number.grad.to_dense() == 1
