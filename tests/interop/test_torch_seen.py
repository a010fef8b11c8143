"""What torch must see runs torch's own operators: exports, traces, transforms, modes, subclasses and other devices."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="gathernest.torch needs torch: pip install 'gathernest[torch]'")
gnt = pytest.importorskip("gathernest.torch", reason="the package gathernest.torch is not installed")
from torch.utils.checkpoint import checkpoint  # noqa: E402

INDEX = torch.tensor([[5, 0, 3, 0], [1, 1, 2, 4]])
TABLE = torch.arange(24.0).reshape(6, 4)
# The first has few elements, and the second more than every size from which an operator runs.
TABLES = {"small": (6, 4, 8), "large": (20_000, 64, 70_000)}


class Model(torch.nn.Module):
    """Two look-ups, by rows and by bags."""

    def __init__(self, rows=6, columns=4):
        super().__init__()
        self.rows, self.bags = gnt.Embedding(rows, columns), gnt.EmbeddingBag(rows, columns, mode="sum")
        for module in (self.rows, self.bags):  # Whole numbers have the same sums in every order.
            torch.nn.init.constant_(module.weight, 1).data += torch.arange(rows)[:, None] % 3

    def forward(self, index):
        return self.rows(index).sum(1) + self.bags(index)


class Functions(torch.nn.Module):
    """One call of each function."""

    def forward(self, table, index):
        picks = index[:, 0]
        rows = gnt.index_select(table, 0, picks) + gnt.embedding(picks, table) + gnt.embedding_bag(index, table)
        each = picks[:, None].expand(-1, table.shape[1])
        added = gnt.index_add(table, 0, picks, rows)
        return rows + gnt.gather(table, 0, each) + gnt.take_along_dim(added, each, 0)


def expected_of(model, index):
    rows, bags = (each.weight.detach().numpy() for each in (model.rows, model.bags))
    return rows[index].sum(1) + bags[index].sum(1)


@pytest.fixture(params=TABLES)
def model_and_index(request):
    rows, columns, count = TABLES[request.param]
    return Model(rows, columns), torch.from_numpy(np.random.default_rng(0).integers(0, rows, (count // 4, 4)))


def calls(module, functional):
    """Return the calls of a module of functions, each of a table of 6 x 4."""
    return {
        "index_select": lambda table: module.index_select(table, 0, INDEX[0]),
        "gather": lambda table: module.gather(table, 0, INDEX),
        "take_along_dim": lambda table: module.take_along_dim(table, INDEX - (6 if module is gnt else 0), 0),
        "embedding": lambda table: functional.embedding(INDEX, table),
        "index_add": lambda table: module.index_add(table, 0, INDEX[0], TABLE[:4]),
        "embedding_bag": lambda table: functional.embedding_bag(INDEX, table, mode="sum"),
        "largest of bags": lambda table: functional.embedding_bag(INDEX, table, mode="max"),
    }


OURS, THEIRS = calls(gnt, gnt), calls(torch, torch.nn.functional)


@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize("is_module", [False, True])
def test_an_exported_program_has_only_operators_of_torch(model_and_index, is_module, is_strict):
    model, index = model_and_index
    table, index = model.rows.weight.detach(), index[: len(model.rows.weight)]
    call, tables = (model, ()) if is_module else (Functions(), (table,))
    sizes = (*[None] * len(tables), {0: torch.export.Dim("rows", min=2)})
    exported = torch.export.export(call, (*tables, index), dynamic_shapes=sizes, strict=is_strict)
    names = {str(node.target) for node in exported.graph.nodes if node.op == "call_function"}
    assert names
    assert not [name for name in names if not name.startswith(("aten.", "<built-in function"))]
    wanted = torch.from_numpy(expected_of(model, index[1:])) if is_module else call(table, index[1:])
    torch.testing.assert_close(exported.module()(*tables, index[1:]).detach(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.thorough
def test_a_saved_program_is_loaded_without_gathernest(tmp_path):
    model, path = Model(), tmp_path / "program.pt2"
    torch.export.save(torch.export.export(model, (INDEX,)), path)
    program = (
        "import sys; sys.modules['gathernest'] = None\n"
        "import torch\n"
        f"found = torch.export.load({str(path)!r}).module()(torch.tensor({INDEX.tolist()}))\n"
        "print(found.flatten().tolist())\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert np.allclose(eval(ended.stdout), expected_of(model, INDEX).flatten(), atol=1e-6)


@pytest.mark.parametrize("is_dynamo", [False, True])
def test_an_onnx_export_has_only_operators_of_onnx(is_dynamo, model_and_index):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    if is_dynamo:
        pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    model, index = model_and_index[0].rows, model_and_index[1]
    stream = io.BytesIO()
    torch.onnx.export(model, (index,), stream, dynamo=is_dynamo, verbose=False)
    nodes = onnx.load_from_string(stream.getvalue()).graph.node
    assert {node.domain for node in nodes} <= {"", "ai.onnx"}
    assert "Gather" in {node.op_type for node in nodes}


@pytest.mark.parametrize("is_traced", [True, False])
def test_openvino_converts_a_module(is_traced):
    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    module = gnt.Embedding(6, 4)
    given = {"example_input": INDEX} if is_traced else {"input": [([2, 4], openvino.Type.i64)]}
    converted = openvino.convert_model(module, **given)
    assert "Gather" in {node.get_type_name() for node in converted.get_ops()}
    found = openvino.compile_model(converted, "CPU")(INDEX.numpy())[0]
    assert np.array_equal(found, module.weight.detach().numpy()[INDEX])


def test_scripted_traced_and_symbolic_modules_give_the_same(model_and_index):
    model, index = model_and_index
    expected = expected_of(model, index)
    for made in (torch.jit.script(model), torch.jit.trace(model, (index,)), torch.fx.symbolic_trace(model)):
        assert np.allclose(made(index).detach(), expected, atol=1e-5)
    assert "gathernest::" not in str(torch.jit.trace(model, (index,)).inlined_graph)
    traced = torch.fx.symbolic_trace(lambda table: gnt.index_select(table, 0, INDEX[0]))
    assert torch.equal(traced(TABLE), TABLE[INDEX[0]])


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_a_compiled_program_gives_the_same_with_its_gradient(model_and_index, is_dynamic):
    model, index = model_and_index
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=is_dynamic)
    found = []
    for each in (model, compiled):
        model.zero_grad()
        result = each(index)
        result.square().sum().backward()
        found.append([result, model.rows.weight.grad, model.bags.weight.grad])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", OURS)
def test_transforms_of_torch_func_give_what_they_give_for_torch(name):
    tables = torch.stack([TABLE, TABLE + 1])
    slopes, tangents = [], []
    for call in (OURS[name], THEIRS[name]):
        slopes.append(torch.func.vmap(torch.func.grad(lambda each, call=call: call(each).pow(2).sum()))(tables))
        if "bag" not in name:  # Torch has no forward mode of bags.
            tangents.append(torch.func.jvp(call, (TABLE,), (TABLE + 2,))[1])
        assert torch.equal(torch.func.functionalize(call)(TABLE), THEIRS[name](TABLE))
    assert torch.equal(*slopes)
    assert not tangents or torch.equal(*tangents)


@pytest.mark.parametrize("name", ["index_select", "gather", "embedding", "embedding_bag"])
def test_gradients_of_a_batch_are_those_of_each(name):
    for dtype in (torch.float32, torch.bfloat16):
        table = TABLE.to(dtype).requires_grad_()
        result = OURS[name](table)
        grads = torch.randn(3, *result.shape).to(dtype)
        (found,) = torch.autograd.grad(result, table, grads, is_grads_batched=True, retain_graph=True)
        each = [torch.autograd.grad(result, table, grad, retain_graph=True)[0] for grad in grads]
        assert torch.equal(found, torch.stack(each))


@pytest.mark.parametrize("name", OURS)
def test_subclasses_modes_and_the_device_meta_see_functions_of_torch(name):
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Named(torch.Tensor):
        pass

    seen = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    assert type(OURS[name](TABLE.as_subclass(Named))) is Named
    for mode in (Functions, Operators):
        seen.clear()
        with mode():
            OURS[name](TABLE)
        assert seen and not [function for function in seen if "gathernest" in str(function)]


def test_a_subclass_that_acts_at_dispatch_gets_its_elements():
    TwoTensor = pytest.importorskip("torch.testing._internal.two_tensor").TwoTensor
    for name, call in OURS.items():
        found = call(TwoTensor(TABLE, TABLE + 1))
        assert torch.equal(found.a, THEIRS[name](TABLE)) and torch.equal(found.b, THEIRS[name](TABLE + 1))


def test_modules_on_the_device_meta_run_as_torchs():
    index = INDEX.to("meta")
    for ours, theirs in ((gnt.Embedding, torch.nn.Embedding), (gnt.EmbeddingBag, torch.nn.EmbeddingBag)):
        found, wanted = (each(6, 4, device="meta")(index) for each in (ours, theirs))
        assert (found.device.type, found.shape, found.dtype) == (wanted.device.type, wanted.shape, wanted.dtype)


def test_fake_tensors_get_a_fake_result():
    with torch._subclasses.fake_tensor.FakeTensorMode():
        for rows in (5, 100_000):
            found = gnt.embedding(torch.zeros(rows, 7, dtype=torch.int64), torch.empty(rows, 64))
            assert found.shape == (rows, 7, 64)


def lookups(model, index, table):
    picks = index.flatten()
    rows = gnt.gather(table, 0, picks[: len(table), None].expand(-1, table.shape[1]))
    return model(index).sum() + (rows * rows).sum() + gnt.index_select(table, 0, picks).square().sum()


@pytest.mark.parametrize("index_dtype", [torch.int64, torch.int32])
def test_activation_checkpoints_give_the_same_gradients(model_and_index, index_dtype):
    model, index = model_and_index
    index = index.to(index_dtype)
    for _ in range(4):
        grads = []
        for is_reentrant in (None, False, True):
            model.zero_grad()
            table = model.rows.weight
            if is_reentrant is None:
                loss = lookups(model, index, table)
            else:
                loss = checkpoint(lookups, model, index, table, use_reentrant=is_reentrant)
            loss.backward()
            grads.append([each.grad.clone() for each in model.parameters()])
        for other in grads[1:]:
            assert all(torch.equal(*pair) for pair in zip(grads[0], other, strict=True))


class HookError(RuntimeError):
    pass


def test_exceptions_of_saved_tensor_hooks_are_not_swallowed(model_and_index):
    model, index = model_and_index
    table = model.rows.weight
    each = index.flatten()[: len(table), None].expand(-1, table.shape[1])
    for call in (
        lambda: gnt.index_select(table, 0, index[:, 0]),
        lambda: gnt.gather(table, 0, each),
        lambda: gnt.take_along_dim(table, each, 0),
        lambda: gnt.embedding(index, table),
        lambda: gnt.embedding_bag(index, table, mode="sum"),
        lambda: gnt.index_add(table, 0, index[:, 0], table.detach()[index[:, 0]].requires_grad_()),
    ):
        for _ in range(3):
            packed = []

            def fail_once(tensor, packed=packed):
                packed.append(tensor)
                if len(packed) == 1:
                    raise HookError("packed")
                return tensor

            with torch.autograd.graph.saved_tensors_hooks(fail_once, lambda tensor: tensor), pytest.raises(HookError):
                call()


def test_a_change_of_saved_indices_is_an_error(model_and_index):
    model, index = model_and_index
    result = gnt.index_select(model.rows.weight, 0, index.flatten())
    index[0] = 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


THREADS = """
import os
import torch
import gathernest.torch as gnt

table, index = torch.ones(20_000, 64, requires_grad=True), torch.arange(40_000) % 20_000
for threads in (1, 1, 2):  # A thread waits for the compiler in the first turn, where nothing is on disk.
    torch.set_num_threads(threads)
    before = len(os.listdir("/proc/self/task"))
    for _ in range(3):
        gnt.embedding_bag(index.reshape(-1, 4), table.detach(), mode="sum")
        gnt.gather(table.detach(), 0, index[:20_000, None].expand(-1, 64))
        rows = gnt.index_select(table, 0, index)
        torch.ops.gathernest.gather_backward(rows.detach(), table.shape, 0, index)
    print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.thorough
@pytest.mark.skipif(len(os.sched_getaffinity(0)) == 1, reason="one core runs one thread")
def test_torch_set_num_threads_is_obeyed():
    """With one thread, as in a DataLoader's workers, a large call starts no further thread."""
    ended = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    _, alone, shared = map(int, ended.stdout.split())
    assert alone == 0 < shared


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.thorough)])
def test_workers_of_a_data_loader_look_rows_up(context):
    """The threads that run here do not exist in a process that is forked, and one that is spawned imports no tests."""
    rows = gnt.Embedding(20_000, 64).requires_grad_(False)
    indices = [(torch.arange(40_000) + place) % 20_000 for place in range(2)]
    rows(indices[0])
    loader = torch.utils.data.DataLoader(indices, None, collate_fn=rows, num_workers=1, multiprocessing_context=context)
    assert [found[0].equal(rows.weight[place]) for place, found in enumerate(loader)] == [True, True]


ENDS = torch.tensor([0, 2])
OPERATORS = {
    "gather": [
        ((5, 3), (0, INDEX[1])),
        ((5, 3), (0, INDEX[1][:, None] - 5, True)),
        ((5, 3), (0, INDEX[1], False, 2, True)),
    ],
    "gather_backward": [
        ((4, 1), ([5, 3], 0, INDEX[1][:, None] - 5, True)),
        ((4, 3), ([5, 3], 0, INDEX[1], False, 0, True)),
        ((3, 4), ([3, 5], 1, INDEX[1])),
    ],
    "embedding_bag": [((5, 3), (INDEX[1], ENDS, (4,), "sum", 4)), ((5, 3), (INDEX[1:], None, None, "mean"))],
    "embedding_bag_backward": [
        ((2, 3), (None, INDEX[1], ENDS, (4,), 5)),
        ((1, 3), ((5, 3), INDEX[1:], None, None, 5, "max")),
    ],
    "embedding_bag_weights_backward": [((2, 3), ((5, 3), INDEX[1], ENDS))],
}


def test_every_row_of_the_table_is_registered_as_torch_wants():
    registered = {name for name in torch._C._dispatch_get_all_op_names() if name.startswith("gathernest::")}
    assert registered == {f"gathernest::{name}" for name in OPERATORS}
    for name, cases in OPERATORS.items():
        for shape, rest in cases:
            wants_grad = not name.startswith("embedding_bag_")
            given = [
                torch.rand(each, requires_grad=wants_grad) if isinstance(each, tuple) else each
                for each in (shape, *rest)
            ]
            outcome = torch.library.opcheck(getattr(torch.ops.gathernest, name).default, given)
            assert set(outcome.values()) == {"SUCCESS"}, name
