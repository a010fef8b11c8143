"""`gathernest.torch.EmbeddingBag` stands in for `torch.nn.EmbeddingBag`."""

import pytest

import gathernest as gn

torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")

BAGS = torch.tensor([[1, 4, 1, 2], [0, 1, 3, 5]])
FLAT, OFFSETS = torch.tensor([1, 4, 1, 0, 3, 5, 5]), torch.tensor([0, 3, 3, 5])
INPUTS = {"rows": (BAGS,), "offsets": (FLAT, OFFSETS), "int32": (FLAT.int(), OFFSETS.int())}
OPTIONS = [
    {"mode": "sum"},
    {"mode": "mean"},
    {"mode": "sum", "padding_idx": 1},
    {"mode": "mean", "padding_idx": -5},
    {"mode": "mean", "max_norm": 0.5},
    {"mode": "max"},
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


READ_ONLY = [
    {"mode": "max"},
    {"mode": "max", "padding_idx": 1},
    {"mode": "sum", "per_sample_weights": True},
    {"mode": "sum", "per_sample_weights": True, "padding_idx": 3},
    {"mode": "mean", "sparse": True},
]


@pytest.mark.parametrize("options", READ_ONLY, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_without_a_gradient_all_modes_and_weights_are_ours(options, dtype, monkeypatch):
    weight = torch.randn(6, 4, dtype=dtype)
    expected = []
    for index, offsets in ((BAGS, None), (FLAT, OFFSETS)):
        factors = torch.randn(index.shape, dtype=dtype) if options.get("per_sample_weights") else None
        given = index, weight, options | {"offsets": offsets, "per_sample_weights": factors}
        expected.append((given, torch.nn.functional.embedding_bag(*given[:2], **given[2])))
    monkeypatch.setattr(torch.nn.functional, "embedding_bag", None)
    for (index, weight, options), theirs in expected:
        ours = gnt.embedding_bag(index, weight, **options)
        assert torch.allclose(
            ours, theirs, rtol=1e-14 if dtype is torch.float64 else 2e-2, atol=1e-2 * (dtype.itemsize < 8)
        )


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
    weight, (index, offsets) = torch.rand(6, 4, dtype=torch.float64, requires_grad=True), inputs

    def summed(each):
        return gnt.embedding_bag(index, each, offsets, mode="mean", padding_idx=4)

    assert torch.autograd.gradgradcheck(summed, weight)
    bags = index, offsets
    grad = torch.rand(summed(weight).shape, dtype=torch.float64, requires_grad=True)
    for operator, arguments in (
        (torch.ops.gathernest.embedding_bag.default, (weight, *bags, True, False, 4)),
        (torch.ops.gathernest.embedding_bag_backward.default, (grad, *bags, 6, True, False, 4)),
    ):
        assert set(torch.library.opcheck(operator, arguments).values()) == {"SUCCESS"}


def test_what_does_not_fit_is_named():
    weight = torch.rand(6, 4)
    for arguments, text in (
        ((BAGS, weight, OFFSETS), "offsets must be None for an input of rank 2, whose rows are the bags"),
        ((FLAT, weight), "offsets must have rank 1 for an input of rank 1, got None; see input.unsqueeze(0)"),
        ((BAGS[None], weight), "input must have rank 1 or 2, got shape (1, 2, 4)"),
        ((BAGS, weight[0]), "weight must be a matrix (rows, columns), got shape (4,)"),
        (
            (BAGS - 1, weight),
            "index -1 at position (1, 0) of input is out of range [0, 5] for dimension 0 of size 6; torch's functions "
            "count no index from the end: pass input % 6",
        ),
    ):
        with pytest.raises(gn.GathernestError) as caught:
            gnt.embedding_bag(*arguments)
        assert str(caught.value) == text
