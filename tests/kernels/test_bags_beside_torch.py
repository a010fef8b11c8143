"""`gather_reduce` gives what `torch.nn.functional.embedding_bag` gives, and so does its gradient."""

import numpy as np
import pytest

import gathernest as gn

torch = pytest.importorskip("torch", reason="the sums are compared with those of torch")

RNG = np.random.default_rng(0)
DATA = RNG.standard_normal((500, 96), dtype=np.float32)
LENGTHS = RNG.integers(0, 40, 50)
OFFSETS = np.cumsum(LENGTHS) - LENGTHS
INDICES = RNG.integers(0, 500, LENGTHS.sum())


@pytest.mark.parametrize("padding", [None, int(INDICES[0])])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_bags_and_their_gradient_are_those_of_embedding_bag(reduce, padding):
    table = torch.tensor(DATA, dtype=torch.float64, requires_grad=True)
    bags = torch.from_numpy(INDICES), table, torch.from_numpy(OFFSETS)
    theirs = torch.nn.functional.embedding_bag(*bags, mode=reduce, padding_idx=padding)
    given = {"reduce": reduce, "padding_index": padding}
    ours = gn.gather_reduce(DATA.astype(np.float64), INDICES, OFFSETS, **given)
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-12, atol=1e-14)
    grad = RNG.standard_normal(ours.shape)
    theirs.backward(torch.from_numpy(grad))
    more = {"data": DATA.astype(np.float64)} if reduce == "max" else {}
    gradient = gn.gather_reduce_grad(grad, INDICES, DATA.shape, OFFSETS, **given, **more)
    np.testing.assert_allclose(gradient, table.grad.numpy(), rtol=1e-12, atol=1e-14)


def test_sums_of_float32_are_as_near_to_the_true_ones_as_those_of_torch():
    rows = RNG.integers(0, 500, (40, 64))
    theirs = torch.nn.functional.embedding_bag(torch.from_numpy(rows), torch.from_numpy(DATA), mode="sum").numpy()
    true = DATA.astype(np.float64)[rows].sum(axis=1)
    assert np.abs(gn.gather_reduce(DATA, rows) - true).max() <= 2 * np.abs(theirs - true).max()


def test_weighted_narrow_and_quantised_bags_are_those_of_torch():
    bags = torch.from_numpy(INDICES), torch.from_numpy(OFFSETS)
    weights = RNG.standard_normal(len(INDICES))
    table = torch.tensor(DATA, dtype=torch.float64, requires_grad=True)
    theirs = torch.tensor(weights, requires_grad=True)
    sums = torch.nn.functional.embedding_bag(bags[0], table, bags[1], mode="sum", per_sample_weights=theirs)
    wide = DATA.astype(np.float64)
    np.testing.assert_allclose(
        gn.gather_reduce(wide, INDICES, OFFSETS, weights=weights), sums.detach().numpy(), rtol=1e-12, atol=1e-12
    )
    grad = RNG.standard_normal(sums.shape)
    sums.backward(torch.from_numpy(grad))
    gradient = gn.gather_reduce_grad(grad, INDICES, DATA.shape, OFFSETS, weights=weights)
    np.testing.assert_allclose(gradient, table.grad.numpy(), rtol=1e-12, atol=1e-12)
    gradient = gn.gather_reduce_weights_grad(grad, wide, INDICES, OFFSETS)
    np.testing.assert_allclose(gradient, theirs.grad.numpy(), rtol=1e-12, atol=1e-12)
    half = torch.from_numpy(DATA).half()
    sums = torch.nn.functional.embedding_bag(bags[0], half, bags[1], mode="sum").float()
    ours = gn.gather_reduce(half.numpy(), INDICES, OFFSETS).astype(np.float32)
    np.testing.assert_allclose(ours, sums.numpy(), rtol=2e-2, atol=2e-2)
    packed = torch.ops.quantized.embedding_bag_byte_prepack(torch.from_numpy(DATA))
    parts = packed.numpy()[:, -8:].copy().view(np.float32)
    quantised = torch.ops.quantized.embedding_bag_byte_rowwise_offsets
    sums = quantised(packed, *bags, False, 0, False, torch.from_numpy(weights).float(), None, False)
    given = {"scale": parts[:, 0], "bias": parts[:, 1], "weights": weights.astype(np.float32)}
    ours = gn.gather_reduce(packed.numpy()[:, :-8], INDICES, OFFSETS, **given)
    np.testing.assert_allclose(ours, sums.numpy(), rtol=1e-4, atol=1e-4)
