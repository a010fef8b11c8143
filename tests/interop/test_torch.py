"""The functions of `gathernest.torch` give what NumPy gives, small ones by torch and large ones by gathernest."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")

# Rows of the table, columns, and indices: torch's own function runs calls of the first, and an operator of the others.
SIZES = {"small": (6, 4, 12), "large": (9000, 64, 70_000)}
FLOATS = ("float32", "float64", "float16", "bfloat16")
DTYPES = ("bool", "uint8", "int16", "int64", "complex64", "float8_e4m3fn", "float8_e5m2", *FLOATS)


@pytest.fixture(params=SIZES)
def size(request):
    return SIZES[request.param]


def numbers(*shape, seed=0):
    """Return small whole numbers, whose sums are exact in every order."""
    return np.random.default_rng(seed).integers(-4, 5, shape)


def places(high, *shape, seed=1):
    return np.random.default_rng(seed).integers(0, high, shape)


GATHERS = ("index_select", "index_select of the last dim", "embedding", "gather", "take_along_dim")


def case_of(name, size):
    """Return a function of a table, the function of NumPy that gives the same, and a table."""
    rows, columns, count = size
    flat, pairs, picks = places(rows, count), places(rows, count // 2, 2), places(columns, min(count, 150))
    each, along, tensor = places(rows, min(count, rows), columns), places(columns, rows, columns), torch.from_numpy
    pairs_of_functions = (
        (lambda t: gnt.index_select(t, 0, tensor(flat)), lambda t: t[flat]),
        (lambda t: gnt.index_select(t, -1, tensor(picks)), lambda t: t[:, picks]),
        (lambda t: gnt.embedding(tensor(pairs), t), lambda t: t[pairs]),
        (lambda t: gnt.gather(t, 0, tensor(each)), lambda t: np.take_along_axis(t, each, 0)),
        (lambda t: gnt.take_along_dim(t, tensor(along - columns), 1), lambda t: np.take_along_axis(t, along, 1)),
    )
    return *pairs_of_functions[GATHERS.index(name)], numbers(rows, columns)


def gradient_of(select, shape, grad):
    """Return the gradient of a table, where each element of `grad` is added to the element that `select` moved."""
    found = np.zeros(np.prod(shape))
    np.add.at(found, select(np.arange(found.size).reshape(shape)), grad)
    return found.reshape(shape)


def as_numpy(tensor):
    return tensor.detach().to_dense().to(torch.float64).numpy()


@pytest.mark.parametrize("name", GATHERS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_results_and_gradients_are_those_of_numpy(name, dtype, size):
    call, select, table = case_of(name, size)
    wanted = select(table)
    given = torch.from_numpy(table).to(getattr(torch, dtype)).requires_grad_()
    grad = numbers(*wanted.shape, seed=2) % 2
    for _ in range(2):
        result = call(given)
        assert np.array_equal(as_numpy(result), wanted)
        assert result.dtype == given.dtype and result.is_contiguous()
        with torch.no_grad():
            assert torch.equal(call(given), result)
        given.grad = None
        result.backward(torch.from_numpy(grad).to(given.dtype))
        expected = torch.from_numpy(gradient_of(select, table.shape, grad)).to(given.dtype)
        assert torch.equal(given.grad, expected)


def test_slices_by_an_expanded_index_are_moved_and_added_as_slices():
    """Torch moves these as slices, too, which takes a fifth of the time of their elements."""
    rows, columns, count = 9000, 64, 20_000
    table, picks = numbers(rows, columns).astype(np.float32), places(rows, count)
    given, index = torch.from_numpy(table).requires_grad_(), torch.from_numpy(picks)[:, None].expand(-1, columns)
    result = gnt.gather(given, 0, index)
    assert "gathernest" in result.grad_fn.name()
    assert np.array_equal(result.detach(), table[picks])
    result.sum().backward()
    assert np.array_equal(given.grad, np.repeat(np.bincount(picks, minlength=rows)[:, None], columns, 1))


@pytest.mark.parametrize("name", ["index_select", "embedding", "gather", "take_along_dim"])
def test_every_dtype_is_moved_bit_by_bit(name):
    for size in SIZES.values():
        call, _, table = case_of(name, size)
        wanted = call(torch.from_numpy(table).double())
        for dtype in (getattr(torch, each) for each in DTYPES):
            found = call(torch.from_numpy(table).double().to(dtype))
            assert torch.equal(found.view(torch.uint8), wanted.to(dtype).view(torch.uint8)), dtype


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_indices_of_every_width_are_read(dtype):
    for rows, columns, count in SIZES.values():
        kind = getattr(torch, dtype)
        table, flat = torch.from_numpy(numbers(rows, columns)).float(), places(min(rows, 100), count)
        index = torch.from_numpy(flat).to(kind)
        each = index[: min(rows, count)].unsqueeze(1)
        wanted = table.numpy()[flat]
        assert np.array_equal(gnt.index_select(table, 0, index), wanted)
        assert np.array_equal(gnt.embedding(index, table), wanted)
        assert np.array_equal(gnt.gather(table, 0, each.expand(-1, columns)), wanted[: len(each)])
        assert np.array_equal(gnt.take_along_dim(table, each, 0), wanted[: len(each)])
        sums = table.numpy().copy()
        np.add.at(sums, flat, wanted)
        assert np.array_equal(gnt.index_add(table, 0, index, torch.from_numpy(wanted)), sums)
        bags = gnt.embedding_bag(index.reshape(-1, 2), table, mode="sum")
        assert np.array_equal(bags, wanted.reshape(-1, 2, columns).sum(1))


def test_an_expanded_int32_column_gathers_and_adds_its_own_elements():
    """`torch.gather` reads other elements by it, without a gradient too."""
    table, picks = numbers(9, 3).astype(np.float32), places(9, 7)
    column = torch.from_numpy(picks.astype(np.int32))
    wanted = np.repeat(np.bincount(picks, minlength=9)[:, np.newaxis], 3, axis=1)
    for index in (column[:, None].expand(-1, 3), torch.as_strided(column, (7, 1), (1, 0))):
        width = index.shape[1]
        for _ in range(4):
            given = torch.from_numpy(table).requires_grad_()
            result = gnt.gather(given, 0, index)
            assert np.array_equal(result.detach(), table[picks, :width])
            result.sum().backward()
            assert np.array_equal(given.grad[:, :width], wanted[:, :width])
            assert np.array_equal(gnt.gather(given.detach(), 0, index), table[picks, :width])


def test_large_calls_run_the_operators_of_gathernest():
    for name in GATHERS:
        for size, is_ours in ((SIZES["small"], False), (SIZES["large"], True)):
            call, _, table = case_of(name, size)
            node = call(torch.from_numpy(table).float().requires_grad_()).grad_fn
            made = node.next_functions[0][0] if "View" in node.name() else node
            assert ("gathernest" in made.name()) is is_ours, name


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["index_select", "gather", "embedding", "embedding_bag", "index_add"])
def test_sums_of_narrow_floats_are_rounded_once(name, dtype):
    """600 ones are 256 in bfloat16 where each sum is rounded, as torch does it in some gradients."""
    kind, index = getattr(torch, dtype), torch.zeros(600, dtype=torch.int64)
    table = torch.zeros(2, 3, dtype=kind, requires_grad=True)
    if name == "index_add":
        assert gnt.index_add(table, 0, index, torch.ones(600, 3, dtype=kind))[0].tolist() == [600] * 3
        return
    calls = {
        "index_select": lambda: gnt.index_select(table, 0, index),
        "gather": lambda: gnt.gather(table, 0, index[:, None].expand(-1, 3)),
        "embedding": lambda: gnt.embedding(index, table),
        "embedding_bag": lambda: gnt.embedding_bag(index[None], table, mode="sum"),
    }
    result = calls[name]()
    result.backward(torch.ones_like(result))
    assert table.grad[0].tolist() == [600] * 3


def test_infinite_complex_gradients_stay_where_they_are():
    """Torch's own gradient multiplies by 1 + 0j, which makes NaN of an infinity."""
    for count in (3, 40_000):
        table = torch.zeros(4, 32, dtype=torch.complex64, requires_grad=True)
        index = torch.arange(count) % 3
        grad = torch.zeros(count, 32, dtype=torch.complex64)
        grad[0, 0] = complex(float("inf"), 1.0)
        gnt.index_select(table, 0, index).backward(grad)
        assert table.grad[0, 0] == complex(float("inf"), 1.0)
        assert not table.grad.isnan().any()


def test_gradients_have_the_same_bytes_for_any_number_of_threads():
    rng, most = np.random.default_rng(3), torch.get_num_threads()
    for rows, columns, count in SIZES.values():
        index = torch.from_numpy(places(rows, count))
        values, grads = (rng.standard_normal((each, columns)).astype(np.float32) for each in (rows, count))
        found = []
        try:
            for threads in (1, 2, 1):
                torch.set_num_threads(threads)
                table = torch.from_numpy(values.copy()).requires_grad_()
                grad = torch.from_numpy(grads)
                added = gnt.index_add(table, 0, index, grad)
                gnt.index_select(table, 0, index).backward(grad)
                gnt.embedding_bag(index.reshape(-1, 4), table, mode="mean").backward(grad[: count // 4])
                each = index[: min(count, rows)].unsqueeze(1).expand(-1, columns)
                gnt.gather(table, 0, each).backward(grad[: len(each)])
                found.append([table.grad, added.detach()])
        finally:
            torch.set_num_threads(most)
        assert all(torch.equal(*pair) for other in found[1:] for pair in zip(found[0], other, strict=True))


@pytest.mark.parametrize(
    "options",
    [{"padding_idx": 1}, {"padding_idx": -2}, {"scale_grad_by_freq": True, "padding_idx": 0}, {"sparse": True}],
    ids=str,
)
def test_options_of_embedding_are_those_of_torch(options, size):
    rows, columns, count = size
    index, weight = places(rows, count // 2, 2), numbers(rows, columns)
    grad = numbers(*index.shape, columns, seed=2)
    module = gnt.Embedding(rows, columns, dtype=torch.float64, **options)
    module.load_state_dict({"weight": torch.from_numpy(weight)})
    result = module(torch.from_numpy(index))
    assert np.array_equal(result.detach(), weight[index])
    result.backward(torch.from_numpy(grad).double())
    expected = gradient_of(lambda table: table[index], weight.shape, grad)
    uses = np.maximum(np.bincount(index.reshape(-1), minlength=rows), 1)[:, np.newaxis]
    expected = expected / uses if "scale_grad_by_freq" in options else expected
    if "padding_idx" in options:
        expected[options["padding_idx"]] = 0
    assert module.weight.grad.is_sparse is ("sparse" in options)
    np.testing.assert_allclose(as_numpy(module.weight.grad), expected, rtol=1e-15)


def test_rows_are_scaled_down_to_max_norm(size):
    rows, columns, count = size
    index = torch.arange(count) % (rows // 2)
    module = gnt.Embedding(rows, columns, max_norm=0.5)
    before = module.weight.detach().numpy().copy()
    result = module(index).detach()
    norms = np.linalg.norm(before[: rows // 2], axis=1, keepdims=True)
    np.testing.assert_allclose(result[: rows // 2], before[: rows // 2] * np.minimum(0.5 / norms, 1), rtol=1e-4)
    assert np.array_equal(module.weight.detach()[rows // 2 :], before[rows // 2 :])


def bags_of(weight, index, offsets, mode, factors=None, padding=None):
    """Return the reduced bags of NumPy, and for each element of a bag the rows that it came from and their factors."""
    found, sources = np.zeros((len(offsets), weight.shape[1])), []
    for bag, (start, end) in enumerate(itertools.pairwise([*offsets, len(index)])):
        kept = np.arange(start, end)[index[start:end] != padding]
        rows, scale = index[kept], np.ones((len(kept), 1)) if factors is None else factors[kept, np.newaxis]
        scale = (
            scale / len(kept) if mode == "mean" and len(kept) else np.broadcast_to(scale, (len(kept), weight.shape[1]))
        )
        if mode == "max" and len(kept):
            scale = np.arange(len(kept))[:, np.newaxis] == weight[rows].argmax(0)
        found[bag] = (weight[rows] * scale).sum(0)
        sources.append((bag, rows, scale))
    return found, sources


BAGS = [
    {"mode": "sum"},
    {"mode": "mean", "padding_idx": 2},
    {"mode": "max"},
    {"mode": "max", "padding_idx": 2},
    {"mode": "sum", "is_weighted": True, "padding_idx": 2},
    {"mode": "sum", "scale_grad_by_freq": True},
]


@pytest.mark.parametrize("options", BAGS, ids=str)
@pytest.mark.parametrize("is_matrix", [True, False])
def test_bags_and_their_gradients_are_those_of_numpy(options, is_matrix, size):
    options = dict(options)
    rows, columns, count = size
    rows, count = min(rows, 400), min(count, 8000)
    columns = 64 if rows > 10 else columns
    is_weighted, padding = options.pop("is_weighted", False), options.get("padding_idx")
    weight, index = numbers(rows, columns), places(rows, count)
    offsets = np.arange(0, count, 4) if is_matrix else np.sort(places(count, count // 4, seed=5))
    offsets[0] = 0
    factors = numbers(count, seed=4) if is_weighted else None
    wanted, sources = bags_of(weight, index, offsets, options["mode"], factors, padding)
    table = torch.from_numpy(weight).double().requires_grad_()
    picks = torch.from_numpy(index.reshape(-1, 4) if is_matrix else index)
    given = {"offsets": None if is_matrix else torch.from_numpy(offsets), **options}
    if factors is not None:
        given["per_sample_weights"] = torch.from_numpy(factors).double().reshape(picks.shape).requires_grad_()
    result = gnt.embedding_bag(picks, table, **given)
    np.testing.assert_allclose(result.detach(), wanted, rtol=1e-12, atol=1e-12)
    with torch.no_grad():
        assert torch.equal(gnt.embedding_bag(picks, table, **given), result)
    grad = numbers(*wanted.shape, seed=2)
    result.backward(torch.from_numpy(grad).double())
    expected = np.zeros(weight.shape)
    for bag, bag_rows, scale in sources:
        np.add.at(expected, bag_rows, scale * grad[bag])
    if "scale_grad_by_freq" in options:
        expected /= np.maximum(np.bincount(index, minlength=rows), 1)[:, np.newaxis]
    np.testing.assert_allclose(table.grad, expected, rtol=1e-12, atol=1e-12)
    if factors is not None:
        bag = np.searchsorted(offsets, np.arange(count), side="right") - 1
        by_factors = np.where(index == padding, 0, (weight[index] * grad[bag]).sum(1))
        np.testing.assert_allclose(given["per_sample_weights"].grad.reshape(-1), by_factors)


def test_the_last_offset_ends_the_last_bag(size):
    rows, columns, count = size
    weight, index = torch.from_numpy(numbers(rows, columns)).float(), torch.from_numpy(places(rows, count))
    offsets = torch.tensor([0, 2, count])
    found = gnt.embedding_bag(index, weight, offsets, mode="sum", include_last_offset=True)
    assert np.array_equal(found[1], weight.numpy()[index[2:]].sum(0))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "float16", "bfloat16", "float32", "complex64"])
def test_index_add_is_that_of_numpy(dtype):
    for rows, columns, count in SIZES.values():
        count = min(count, 35_000)
        for dim, alpha in ((0, 1), (-1, 3)):
            shape = (rows, columns) if dim == 0 else (columns, rows)
            table, index = numbers(*shape) % 3, places(rows, count)
            source = numbers(*((count, columns) if dim == 0 else (columns, count)), seed=2) % 3
            wanted = np.moveaxis(table.copy(), dim, 0)
            np.add.at(wanted, index, alpha * np.moveaxis(source, dim, 0))
            tensors = (torch.from_numpy(each).to(getattr(torch, dtype)) for each in (table, source))
            given, slices = tensors
            found = gnt.index_add(given, dim, torch.from_numpy(index), slices, alpha=alpha)
            expected = torch.from_numpy(np.moveaxis(wanted, 0, dim).copy()).to(found.dtype)
            assert torch.equal(found, expected)
            assert gnt.index_add(given, dim, torch.from_numpy(index), slices, alpha=alpha, out=given) is given
            assert torch.equal(given, expected)


@pytest.mark.parametrize("alpha", [float("inf"), float("-inf"), float("nan")])
def test_rows_without_an_index_stay_with_an_alpha_that_is_not_finite(alpha):
    for dtype in (torch.float32, torch.bfloat16):
        given = torch.zeros(3, 2, dtype=dtype), 0, torch.tensor([1, 1]), torch.ones(2, 2, dtype=dtype)
        found = gnt.index_add(*given, alpha=alpha)
        assert found[[0, 2]].tolist() == [[0, 0], [0, 0]]
        assert not found[1].isfinite().any()


def test_gradients_can_be_derived_again():
    index, ops = torch.tensor([4, 0, 0, 3]), torch.ops.gathernest
    table, source = (torch.rand(n, 3, dtype=torch.float64, requires_grad=True) for n in (5, 4))
    calls = {
        "index_select": (lambda t: ops.gather(t, 0, index, False, 3, True) * (index != 3)[:, None], table),
        "gather": (lambda t: ops.gather(t, 0, index[:, None] - 5, True), table),
        "gather_backward": (lambda s: ops.gather_backward(s, [5, 3], 0, index), source),
    }
    for name, (call, *tensors) in calls.items():
        if name != "index_select":
            assert torch.autograd.gradcheck(call, tensors), name
        assert torch.autograd.gradgradcheck(call, tensors), name


def test_strided_tensors_scalars_and_no_indices_are_those_of_torch():
    none = torch.empty(0, dtype=torch.int64)
    for table in (torch.arange(60.0).reshape(10, 6)[::2, ::2], torch.arange(15.0).reshape(3, 5).t()):
        index = torch.tensor([4, 0, 0, 3])
        assert np.array_equal(gnt.index_select(table, 0, index), table.numpy()[index])
        assert gnt.index_select(table, 0, none).shape == (0, 3)
        assert gnt.gather(table, 0, none).shape == (0,)
        assert gnt.index_select(table, 1, torch.tensor(2)).shape == (5, 1)
    wide = torch.from_numpy(numbers(8000, 128)).float()[::2, ::2]
    index = torch.from_numpy(places(4000, 20_000))
    assert np.array_equal(gnt.index_select(wide, 0, index), wide.numpy()[index])
    scalar = torch.tensor(3.0, requires_grad=True)
    assert gnt.index_select(scalar, 0, torch.tensor(0)).shape == ()
    assert gnt.gather(scalar, 0, torch.tensor([0, 0])).shape == (2,)
    gnt.gather(scalar, 0, torch.tensor(0), sparse_grad=True).backward()
    assert scalar.grad.is_sparse and scalar.grad.to_dense() == 1


def test_lazy_conjugates_and_signs_are_computed(size):
    rows, columns, count = size
    table = torch.complex(*torch.from_numpy(numbers(2, rows, columns)).float())
    index = torch.from_numpy(places(rows, count))
    for given in (table.conj(), table.conj().imag):
        assert np.array_equal(gnt.index_select(given, 0, index), given.resolve_conj().resolve_neg().numpy()[index])
    out = torch.zeros(count, columns, dtype=torch.complex64)
    gnt.index_select(table.real, 0, index, out=out.conj().imag)
    assert np.array_equal(out.imag, -table.real.numpy()[index])


def test_out_gets_the_result_and_its_version_counts(size):
    rows, columns, count = size
    table, index = torch.from_numpy(numbers(rows, columns)).float(), torch.from_numpy(places(rows, count))
    each = torch.from_numpy(places(rows, rows, columns))
    wanted = {
        "select": (lambda out: gnt.index_select(table, 0, index, out=out), table.numpy()[index]),
        "gather": (lambda out: gnt.gather(table, 0, each, out=out), np.take_along_axis(table.numpy(), each.numpy(), 0)),
        "along": (lambda out: gnt.take_along_dim(table, each - rows, 0, out=out),) * 2,
    }
    wanted["along"] = wanted["along"][0], wanted["gather"][1]
    for call, expected in wanted.values():
        strided = torch.empty(2 * expected.shape[0], expected.shape[1])[::2]
        for out in (torch.empty(expected.shape), torch.empty(0), strided):
            before = out._version
            assert call(out) is out
            assert np.array_equal(out, expected)
            assert out._version > before
    same = table[: len(each)].clone()
    assert np.array_equal(gnt.gather(same, 0, each, out=same), wanted["gather"][1])


def test_a_module_becomes_ours_by_its_class():
    module = torch.nn.Sequential(torch.nn.Embedding(6, 4), torch.nn.Linear(4, 2))
    index = torch.tensor([[1, 4, 1], [0, 1, 3]])
    wanted = module(index)
    module[0].__class__ = gnt.Embedding
    assert torch.equal(module(index), wanted)
    assert isinstance(gnt.Embedding.from_pretrained(torch.eye(3)), gnt.Embedding)


def test_integers_of_any_kind_name_the_padding():
    table, index = torch.ones(6, 4, requires_grad=True), torch.tensor([[0, 1, 1]])
    for padding in (np.int64(1), torch.tensor(1), -5):
        assert gnt.embedding_bag(index, table, mode="sum", padding_idx=padding).tolist() == [[1] * 4]
        assert np.array_equal(gnt.embedding(index, table, padding_idx=padding).detach(), np.ones((1, 3, 4)))


def test_no_rows_and_no_indices_give_zeros():
    weight, none = torch.zeros(0, 4, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    for mode in ("sum", "mean", "max"):
        found = gnt.embedding_bag(none, weight, torch.zeros(3, dtype=torch.int64), mode=mode)
        assert torch.equal(found, torch.zeros(3, 4))


def test_first_example_of_the_page_prints_its_shapes(capsys):
    page = (Path(__file__).parents[2] / "docs" / "torch.md").read_text()
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert example is not None
    exec(example[1], {})
    printed = capsys.readouterr().out.strip()
    assert printed.startswith("torch.Size") and f"# {printed}" in example[1]
