"""`gathernest.torch.EmbeddingBag` stands in for `torch.nn.EmbeddingBag`."""

import pytest

import gathernest as gn

torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")
from gathernest.kernels.frameworks import torch_bag_operators, torch_bags  # noqa: E402

BAGS = torch.tensor([[1, 4, 1, 2], [0, 1, 3, 5]])
FLAT, OFFSETS = torch.tensor([1, 4, 1, 0, 3, 5, 5]), torch.tensor([0, 3, 3, 5])
INPUTS = {"rows": (BAGS,), "offsets": (FLAT, OFFSETS), "int32": (FLAT.int(), OFFSETS.int())}
OPTIONS = [
    {"mode": "sum"},
    {"mode": "mean"},
    {"mode": "sum", "padding_idx": 1},
    {"mode": "mean", "padding_idx": -5},
    {"mode": "mean", "max_norm": 0.5},
    {"mode": "max", "max_norm": 0.5},
    {"mode": "sum", "sparse": True},
    {"mode": "mean", "scale_grad_by_freq": True},
    {"mode": "sum", "dtype": torch.bfloat16},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_output_weight_and_gradient_are_those_of_torch(options):
    for inputs in INPUTS.values():
        options = {"dtype": torch.float64} | options
        theirs, ours = torch.nn.EmbeddingBag(6, 4, **options), gnt.EmbeddingBag(6, 4, **options)
        ours.load_state_dict(theirs.state_dict())
        outputs = [module(*inputs) for module in (ours, theirs)]
        close = {"rtol": 1e-15 if options["dtype"] is torch.float64 else 1e-2}
        assert torch.allclose(*outputs, **close)
        for output in outputs:
            (output * torch.arange(output.numel()).reshape(output.shape)).sum().backward()
        assert torch.equal(ours.weight, theirs.weight)
        assert torch.allclose(ours.weight.grad.to_dense(), theirs.weight.grad.to_dense(), **close)


OWN = [
    {"mode": "max"},
    {"mode": "max", "padding_idx": 1},
    {"mode": "mean", "padding_idx": 0},
    {"mode": "sum", "per_sample_weights": True},
    {"mode": "sum", "per_sample_weights": True, "padding_idx": 3},
]


def results_and_gradients(function, tensors, index, offsets, options):
    """Return what a function gives without and with a gradient wanted, and the gradients of weight and factors."""
    found = []
    for wants in (False, True):
        weight, factors = (None if tensor is None else tensor.clone().requires_grad_(wants) for tensor in tensors)
        found.append(function(index, weight, **options | {"offsets": offsets, "per_sample_weights": factors}))
    found[-1].sum().backward()
    return found + [tensor.grad for tensor in (weight, factors) if tensor is not None]


@pytest.mark.parametrize("options", OWN, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_all_modes_and_weights_and_their_gradients_are_ours(options, dtype, monkeypatch):
    """Rows and factors are small whole numbers, whose sums are the same in every order; means are rounded."""
    tolerance = 1e-2 if options["mode"] == "mean" else 0
    expected = []
    for bags in ((BAGS, None), (FLAT, OFFSETS)):
        shapes = (6, 4), bags[0].shape if options.get("per_sample_weights") else None
        tensors = [None if shape is None else torch.randint(-4, 5, shape).to(dtype) for shape in shapes]
        given = tensors, *bags, options
        expected.append((given, results_and_gradients(torch.nn.functional.embedding_bag, *given)))
    monkeypatch.setattr(torch.nn.functional, "embedding_bag", None)
    for given, theirs in expected:
        ours = results_and_gradients(gnt.embedding_bag, *given)
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "options", [{"mode": "sum"}, {"mode": "mean"}, {"mode": "max"}, {"mode": "mean", "padding_idx": 1}], ids=str
)
def test_few_bags_of_offsets_take_the_fast_way(options, monkeypatch):
    weights = [torch.randint(-4, 5, (6, 4)).to(dtype) for dtype in (torch.float32, torch.float64)]
    for weight in (*weights, *weights):
        gnt.embedding_bag(FLAT, weight, OFFSETS, **options)
    monkeypatch.setattr(torch_bags, "check_tensor", None)  # which every other way calls
    for weight in weights:
        for index, offsets, more in (
            (FLAT, OFFSETS, {}),
            (FLAT, torch.tensor([0, 3, 3, 5, 7]), {"include_last_offset": True}),
        ):
            ours = gnt.embedding_bag(index, weight + 1, offsets, **options, **more)
            theirs = torch.nn.functional.embedding_bag(index, weight + 1, offsets, **options, **more)
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("bags", [(BAGS, None), (FLAT, OFFSETS)], ids=["rows", "offsets"])
def test_weights_of_few_bags_are_put_beside_their_positions(bags, monkeypatch):
    index, offsets = bags
    weight, factors = torch.randint(-4, 5, (6, 4)).float(), torch.randint(-4, 5, index.shape).float()
    monkeypatch.setattr(torch_bag_operators, "gather_reduce", None)  # which every other way calls
    for padding in (None, 1):
        given = {"mode": "sum", "per_sample_weights": factors, "padding_idx": padding}
        ours = gnt.embedding_bag(index, weight, offsets, **given)
        assert torch.equal(ours, torch.nn.functional.embedding_bag(index, weight, offsets, **given))


@pytest.mark.parametrize("bags", [(BAGS, None), (FLAT, OFFSETS)], ids=["rows", "offsets"])
def test_few_bags_with_weights_take_the_fast_way(bags, monkeypatch):
    index, offsets = bags
    weight, factors = torch.randint(-4, 5, (6, 4)).float(), torch.randint(-4, 5, index.shape).float()
    for _ in range(3):
        gnt.embedding_bag(index, weight, offsets, mode="sum", per_sample_weights=factors)
    with monkeypatch.context() as patched:
        patched.setattr(torch_bags, "check_tensor", None)  # which every other way calls
        for padding in (None, -1, 2):
            given = {"mode": "sum", "per_sample_weights": factors * 2, "padding_idx": padding}
            ours = gnt.embedding_bag(index, weight + 1, offsets, **given)
            assert torch.equal(ours, torch.nn.functional.embedding_bag(index, weight + 1, offsets, **given))
    given = {"mode": "sum", "per_sample_weights": factors}
    if offsets is None:
        assert len(gnt.embedding_bag(index, weight, include_last_offset=True, **given)) == len(index)
    with pytest.raises(gn.BoundsError, match="index 6 at position"):
        gnt.embedding_bag(index + 1, weight, offsets, **given)
    with pytest.raises(gn.InvalidGatherError, match="per_sample_weights must have the shape of input"):
        gnt.embedding_bag(index, weight, offsets, mode="sum", per_sample_weights=torch.cat([factors, factors]))
    with pytest.raises(gn.InvalidGatherError, match=r"per_sample_weights are for mode=.sum."):
        gnt.embedding_bag(index, weight, offsets, mode="mean", per_sample_weights=factors)
    factors.requires_grad_()
    gnt.embedding_bag(index, weight, offsets, **given).sum().backward()
    assert torch.equal(factors.grad, weight[index].sum(-1))


def test_few_bags_have_the_errors_of_others():
    weight = torch.rand(6, 4)
    for _ in range(3):
        gnt.embedding_bag(FLAT, weight, OFFSETS, mode="sum")
    with pytest.raises(gn.BoundsError, match="index 6 at position"):
        gnt.embedding_bag(FLAT + 1, weight, OFFSETS, mode="sum")
    for wrong in ((FLAT, weight.numpy(), OFFSETS), (FLAT.numpy(), weight, OFFSETS), (FLAT, weight[0], OFFSETS)):
        with pytest.raises(gn.InvalidGatherError, match="must be a"):
            gnt.embedding_bag(*wrong, mode="sum")
    with pytest.raises(gn.InvalidGatherError, match="padding_idx 6 is out of range"):
        gnt.embedding_bag(FLAT, weight, OFFSETS, mode="sum", padding_idx=6)


def test_last_offset_ends_the_last_bag():
    weight = torch.rand(6, 4, dtype=torch.float64)
    ours, theirs = (
        each(FLAT, weight, torch.tensor([0, 2, 7]), mode="sum", include_last_offset=True)
        for each in (gnt.embedding_bag, torch.nn.functional.embedding_bag)
    )
    assert torch.allclose(ours, theirs, rtol=1e-15)
    shorter = gnt.embedding_bag(FLAT, weight, torch.tensor([0, 2, 6]), mode="sum", include_last_offset=True)
    assert torch.allclose(shorter[1], weight[FLAT[2:6]].sum(0), rtol=1e-15)


@pytest.mark.parametrize("inputs", [(BAGS, None), (FLAT, OFFSETS)], ids=["rows", "offsets"])
def test_gradients_can_be_derived_again(inputs):
    index, offsets = inputs
    weight, factors = (torch.rand(shape, dtype=torch.float64, requires_grad=True) for shape in ((6, 4), index.shape))

    def summed(mode, weight, factors=None):
        rest = {"mode": mode, "padding_idx": 4, "per_sample_weights": factors}
        return gnt.embedding_bag(index, weight, offsets, **rest)

    for mode, tensors in (("mean", (weight,)), ("max", (weight,)), ("sum", (weight, factors))):
        assert torch.autograd.gradcheck(lambda *given, mode=mode: summed(mode, *given), tensors, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(lambda *given, mode=mode: summed(mode, *given), tensors)


@pytest.mark.parametrize("inputs", [(BAGS, None), (FLAT, OFFSETS)], ids=["rows", "offsets"])
def test_operators_are_registered_as_torch_wants(inputs):
    weight, factors = (torch.rand(shape, requires_grad=True) for shape in ((6, 4), inputs[0].shape))
    grad = torch.rand(2 if inputs[1] is None else 4, 4, requires_grad=True)
    for name, arguments in {
        "embedding_bag": (weight, *inputs, factors, False),
        "embedding_bag_backward": (grad, *inputs, None, 6, True, False, 4),
        "embedding_bag_per_sample_weights_backward": (grad, weight, *inputs),
        "embedding_bag_rows_of_largest": (weight.detach(), *inputs),
    }.items():
        outcome = torch.library.opcheck(getattr(torch.ops.gathernest, name).default, arguments)
        assert set(outcome.values()) == {"SUCCESS"}, name


def test_compiled_and_transformed_bags_are_those_of_torch():
    def largest(weight):
        return gnt.embedding_bag(FLAT, weight, OFFSETS, mode="max").square().sum()

    weights = torch.rand(3, 6, 4)
    one = torch.nn.functional.embedding_bag(FLAT, weights[0], OFFSETS, mode="max").square().sum()
    assert torch.equal(torch.compile(largest, fullgraph=True, backend="aot_eager")(weights[0]), one)
    slopes = torch.func.vmap(torch.func.grad(largest))(weights)
    for weight, slope in zip(weights, slopes, strict=True):
        given = weight.clone().requires_grad_()
        largest(given).backward()
        assert torch.equal(given.grad, slope)


def test_no_rows_and_no_indices_give_zeros():
    weight, none = torch.zeros(0, 4, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    for mode in ("sum", "mean", "max"):
        assert torch.equal(
            gnt.embedding_bag(none, weight, torch.zeros(3, dtype=torch.int64), mode=mode), torch.zeros(3, 4)
        )


def test_what_does_not_fit_is_named():
    weight = torch.rand(6, 4)
    for arguments, text in (
        ((BAGS, weight, OFFSETS), "offsets must be None for an input of rank 2, whose rows are the bags"),
        ((FLAT, weight), "offsets must have rank 1 for an input of rank 1, got None; see input.unsqueeze(0)"),
        (
            (BAGS, weight.int()),
            "weight must be float16, bfloat16, float32 or float64, got torch.int32; convert it, as by .float()",
        ),
        ((BAGS, weight, None, None, 2, False, "min"), 'mode must be "sum", "mean" or "max", got \'min\''),
        ((BAGS[None], weight), "input must have rank 1 or 2, got shape (1, 2, 4)"),
        ((BAGS, weight[0]), "weight must be a matrix (rows, columns), got shape (4,)"),
        (
            (BAGS, weight, None, None, 2, False, "mean", False, torch.rand(2, 4)),
            "per_sample_weights are for mode=\"sum\", as in torch, got mode='mean'",
        ),
        (
            (BAGS, weight, None, None, 2, False, "sum", False, torch.rand(2, 3)),
            "per_sample_weights must have the shape of input and the dtype of weight, (2, 4) and torch.float32, got "
            "(2, 3) and torch.float32",
        ),
        (
            (BAGS - 1, weight),
            "index -1 at position (1, 0) of input is out of range [0, 5] for dimension 0 of size 6; torch's functions "
            "count no index from the end: pass input % 6",
        ),
    ):
        with pytest.raises(gn.GathernestError) as caught:
            gnt.embedding_bag(*arguments)
        assert str(caught.value) == text


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(("offsets", "got"), [([0, 3, 9], "9"), ([0, -1], "-1"), ([0, 3, 2], "2"), ([], "none")])
def test_a_last_offset_that_ends_no_bag_is_rejected(mode, offsets, got):
    given = torch.arange(6), torch.randn(10, 4), torch.tensor(offsets, dtype=torch.long)
    message = f"the last of offsets must end the last bag, at most at 6, the number of indices; got {got}$"
    for _ in range(2):
        with pytest.raises(gn.InvalidGatherError, match=message):
            gnt.embedding_bag(*given, mode=mode, include_last_offset=True)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64])
@pytest.mark.parametrize("options", [{"sparse": True}, {"scale_grad_by_freq": True}, {"max_norm": 1.0}], ids=str)
def test_ways_of_torch_itself_take_all_integers(dtype, options):
    found = []
    for kind in (torch.int64, dtype):
        weight = torch.arange(40, dtype=torch.float32).reshape(10, 4).requires_grad_()
        indices, offsets = torch.tensor([1, 1, 9, 3]).to(kind), torch.tensor([0, 2]).to(kind)
        look_up = gnt.embedding(indices, weight, **options)
        bags = gnt.embedding_bag(indices, weight, offsets, mode="sum", **options)
        (look_up.sum() + bags.pow(2).sum()).backward()
        found.append([weight.detach(), weight.grad.to_dense(), look_up.detach(), bags.detach()])
    assert all(map(torch.equal, *found))
