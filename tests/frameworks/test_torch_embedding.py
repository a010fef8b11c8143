"""`gathernest.torch.Embedding` stands in for `torch.nn.Embedding`, with each of its options."""

import pytest

import gathernest as gn

torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")

INPUT = torch.tensor([[1, 4, 1], [0, 1, 3]])


def pair(**options):
    """Return our module and torch's with the same weights, in float64: the order of sums differs in its last bit."""
    theirs = torch.nn.Embedding(6, 4, dtype=torch.float64, **options)
    ours = gnt.Embedding(6, 4, dtype=torch.float64, **options)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding_idx": 1},
        {"padding_idx": -2},
        {"scale_grad_by_freq": True, "padding_idx": 0},
        {"max_norm": 0.5},
        {"max_norm": 0.7, "norm_type": 1.0},
        {"sparse": True},
        {"sparse": True, "padding_idx": 1},
    ],
    ids=str,
)
def test_output_weight_and_gradient_are_those_of_torch(options):
    modules = pair(**options)
    factor = torch.rand(2, 3, 4, dtype=torch.float64)
    outputs = [module(INPUT) for module in modules]
    assert torch.equal(*outputs)
    for output in outputs:
        (output * factor).sum().backward()
    assert torch.equal(*(module.weight for module in modules))
    grads = [module.weight.grad for module in modules]
    assert grads[0].layout is grads[1].layout
    assert torch.allclose(*(grad.to_dense() for grad in grads), rtol=1e-15)


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"padding_idx": 1, "scale_grad_by_freq": True}], ids=str)
def test_gradient_of_the_gradient_is_right(options):
    weight = torch.rand(6, 4, dtype=torch.float64, requires_grad=True)
    if "scale_grad_by_freq" not in options:
        assert torch.autograd.gradcheck(lambda each: gnt.embedding(INPUT, each, **options)[INPUT != 1], weight)
    grad = torch.rand(2, 3, 4, dtype=torch.float64, requires_grad=True)

    def backward(each):
        output = gnt.embedding(INPUT, weight, **options)
        return torch.autograd.grad(output, weight, each, create_graph=True)[0]

    assert torch.autograd.gradcheck(backward, grad)


def test_a_module_becomes_ours_by_its_class():
    module = torch.nn.Sequential(torch.nn.Embedding(6, 4), torch.nn.Linear(4, 2))
    wanted = module(INPUT)
    module[0].__class__ = gnt.Embedding
    assert torch.equal(module(INPUT), wanted)
    assert isinstance(gnt.Embedding.from_pretrained(torch.eye(3)), gnt.Embedding)


def test_options_that_do_not_fit_are_rejected():
    weight = torch.rand(6, 4)
    for arguments, text in (
        ({"padding_idx": 6}, "padding_idx 6 is out of range [-6, 5] for 6 rows"),
        (
            {"sparse": True, "scale_grad_by_freq": True},
            "scale_grad_by_freq=True has no sparse gradient, as in torch; pass sparse=False",
        ),
    ):
        with pytest.raises(gn.InvalidGatherError) as caught:
            gnt.embedding(INPUT, weight, **arguments)
        assert str(caught.value) == text
    with pytest.raises(gn.InvalidGatherError, match=r"weight must be a torch.Tensor, got list; pass torch.as_tensor"):
        gnt.embedding(INPUT, weight.tolist())
    with pytest.raises(gn.InvalidGatherError) as caught:
        gnt.embedding(INPUT, weight[0])
    assert str(caught.value) == "weight must be a matrix (rows, columns), got shape (4,)"
