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
