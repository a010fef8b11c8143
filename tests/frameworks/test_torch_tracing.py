"""torch compiles, traces and transforms the operators of `gathernest.torch`."""

import pytest

torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")

INDEX = torch.tensor([4, 0, 0, 3])
OPERATORS = {
    "index_select": ((5, 3), (0, INDEX)),
    "index_select_backward": ((4, 3), ([5, 3], 0, INDEX)),
    "gather": ((5, 3), (0, INDEX[:, None])),
    "gather_backward": ((4, 1), ([5, 3], 0, INDEX[:, None])),
    "gather_with_sparse_grad": ((5, 3), (0, INDEX[:, None])),
    "take_along_dim": ((5, 3), (0, INDEX[:, None] - 5)),
    "take_along_dim_backward": ((4, 1), ([5, 3], 0, INDEX[:, None] - 5)),
    "embedding": ((5, 3), (INDEX, 0, True)),
    "embedding_dense_backward": ((4, 3), (INDEX, 5, 0, True)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_registered_as_torch_wants(name):
    shape, rest = OPERATORS[name]
    operator = getattr(torch.ops.gathernest, name).default
    outcome = torch.library.opcheck(operator, (torch.rand(shape, requires_grad=True), *rest))
    assert set(outcome.values()) == {"SUCCESS"}


def several(table, index):
    rows = gnt.index_select(table, 0, index)
    elements = gnt.gather(table, 1, index[:, None] % 3) + gnt.take_along_dim(table[:4], index[:, None] % 3 - 3, 1)
    into = gnt.index_select(table.detach(), 0, index, out=torch.empty_like(rows.detach()))
    return rows * elements[: len(rows)] + gnt.embedding(index, table) + into


def test_compiled_in_one_graph_gives_the_same_with_its_gradient():
    compiled = torch.compile(several, fullgraph=True, backend="aot_eager")
    for index in (INDEX, torch.tensor([1, 1, 2, 4])):
        results = []
        for function in (several, compiled):
            table = torch.arange(15.0).reshape(5, 3).requires_grad_()
            result = function(table, index)
            result.square().sum().backward()
            results.append((result, table.grad))
        assert all(map(torch.equal, *results))


def test_compiled_module_names_the_operator_in_its_graph():
    exported = torch.export.export(gnt.Embedding(5, 3), (INDEX,))
    assert "torch.ops.gathernest.embedding.default" in exported.graph_module.code
    assert torch.equal(exported.module()(INDEX), exported.state_dict["weight"][INDEX])


def test_transforms_of_torch_func_give_what_they_give_for_torch():
    table = torch.rand(5, 3)
    several_tables = torch.stack([table, table + 1])

    def loss(ours, each):
        return ours.index_select(each, 0, INDEX).pow(2).sum()

    def slopes(ours):
        return torch.func.vmap(torch.func.grad(lambda each: loss(ours, each)))(several_tables)

    assert torch.equal(slopes(gnt), slopes(torch))
    _, tangent = torch.func.jvp(lambda each: gnt.index_select(each, 0, INDEX), (table,), (table + 2,))
    assert torch.equal(tangent, (table + 2)[INDEX])
    _, tangent = torch.func.jvp(lambda each: gnt.embedding(INDEX, each, padding_idx=4), (table,), (table + 2,))
    assert torch.equal(tangent, (table + 2)[INDEX])


def test_tracing_records_the_operator_and_not_its_result():
    traced = torch.jit.trace(lambda table: gnt.index_select(table, 0, INDEX), (torch.zeros(5, 3),))
    table = torch.rand(5, 3)
    assert torch.equal(traced(table), table[INDEX])


def test_fake_tensors_get_a_fake_result():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert gnt.embedding(torch.zeros(2, 7, dtype=torch.int64), torch.empty(5, 3)).shape == (2, 7, 3)
