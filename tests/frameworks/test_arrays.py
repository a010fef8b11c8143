"""Arrays of torch, jax and TensorFlow as arguments of `gather`: read and written in place, and what cannot be read."""

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.runtime.array_checks import data_array, index_array, out_array

DATA, INDICES = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([2, 0])
EXPECTED = [[4, 5], [0, 1]]


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax", reason="jax is not installed")


def rejected(message: str):
    return pytest.raises(gn.InvalidGatherError, match=message)


def test_torch_tensors_are_read_and_written_in_place(torch):
    data, indices, out = torch.tensor(DATA), torch.tensor(INDICES), torch.zeros(2, 2)
    assert data_array(data).ctypes.data == data.data_ptr()
    assert index_array(indices).ctypes.data == indices.data_ptr()
    for _ in range(3):
        assert gn.gather(data, indices, out=out) is out
        assert out.tolist() == EXPECTED == gn.gather(data, indices).tolist()
        out.zero_()
    assert gn.gather(data.t(), indices, 1).tolist() == np.array(EXPECTED).T.tolist()


CHANGES = {
    "gather": lambda data, indices, out: gn.gather(data, indices, out=out),
    "gather_grad": lambda data, indices, out: gn.gather_grad(data[:2], indices, (2, 2), bounds="zero", out=out),
    "gather_reduce": lambda data, indices, out: gn.gather_reduce(data, indices.reshape(2, 1), out=out),
    "kernel": lambda data, indices, out: gn.compile("gather", DATA, INDICES)(data, indices, out=out),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_gradient_that_needs_the_old_values_of_out_is_an_error(torch, name):
    out, weights = torch.full((2, 2), 2.0), torch.ones(2, 2, requires_grad=True)
    product = (weights * out).sum()
    CHANGES[name](torch.tensor(DATA), torch.tensor(INDICES), out)
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        product.backward()
    with torch.inference_mode():
        CHANGES[name](torch.tensor(DATA), torch.tensor(INDICES), torch.zeros(2, 2))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_floats_of_torch_are_those_of_ml_dtypes(torch, name):
    data = torch.tensor(DATA).to(getattr(torch, name))
    out = torch.zeros(2, 2, dtype=data.dtype)
    assert data_array(data).dtype.name == name and data_array(data).ctypes.data == data.data_ptr()
    gn.gather(data, INDICES, out=out)
    assert out.float().tolist() == data[INDICES].float().tolist()


def test_torch_tensors_that_have_no_values_here_are_rejected(torch):
    with rejected(r"data is a torch.Tensor, on the device meta|which has no values while a call is traced; call the"):
        gn.gather(torch.zeros(3, device="meta"), [0])
    with rejected(r"data is a torch.Tensor, of the layout torch.sparse_coo; pass data.to_dense\(\)"):
        gn.gather(torch.eye(3).to_sparse(), [0])
    parameter = torch.nn.Parameter(torch.zeros(3))
    with rejected(r"data is a torch.Parameter, which requires a gradient, and it would be lost; call gathernest.torch"):
        gn.gather(parameter, [0])
    with torch.no_grad():
        assert gn.gather(parameter, [0]).tolist() == [0]
    with rejected("out is a torch.Tensor, which requires a gradient"):
        gn.gather(DATA[0], [0], out=torch.zeros(1, requires_grad=True))
    with rejected("rows differ in length; pass data.to_padded_tensor"):
        gn.gather(torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.strided), [0])
    with rejected(r"which has no memory of its own .*; call gathernest outside of torch.func's transforms, or"):
        torch.vmap(lambda row: gn.gather(row, [0]))(torch.eye(3))
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.zeros(3))
        with rejected("data is a torch.FakeTensor, which has no values while a call is traced; call the functions"):
            gn.gather(fake, [0])


def test_lazy_conjugates_of_torch_are_computed_and_not_written(torch):
    data = torch.tensor([1 + 2j, 3 - 1j])
    assert gn.gather(data.conj(), [0]).tolist() == [1 - 2j]
    with rejected("lazy conjugate"):
        gn.gather(np.zeros(2, np.complex64), [0, 1], out=data.conj())


def test_jax_arrays_are_read_in_place_and_never_written(jax):
    data, indices = jax.numpy.asarray(DATA), jax.numpy.asarray(INDICES)
    for _ in range(2):
        assert data_array(data).ctypes.data == data.unsafe_buffer_pointer()
        assert index_array(indices).ctypes.data == indices.unsafe_buffer_pointer()
    assert gn.gather(data, indices).tolist() == EXPECTED
    assert gn.gather(data.astype("bfloat16"), indices).dtype.name == "bfloat16"
    with rejected(
        "out cannot be a jaxlib.*: jax's arrays never change; leave out away, and pass the result to jax.nump"
    ):
        gn.gather(data, indices, out=jax.numpy.zeros((2, 2)))


def test_values_that_jax_traces_are_rejected_by_name(jax):
    message = (
        "is a jax.DynamicJaxprTracer, which has no values while .*; call gathernest outside jax.jit, vmap and grad"
    )
    with rejected(f"data {message}"):
        jax.jit(lambda data: gn.gather(data, [0]))(DATA)
    with rejected(f"indices {message}"):
        jax.jit(lambda indices: gn.gather(DATA, indices))(INDICES)

    def in_a_callback(indices):
        shape = jax.ShapeDtypeStruct((2, 2), np.float32)
        return jax.pure_callback(lambda indices: gn.gather(DATA, indices), shape, indices)

    assert jax.jit(in_a_callback)(INDICES).tolist() == EXPECTED


def test_tensorflow_tensors_are_read_in_place_and_never_written(tf):
    data, indices = tf.constant(DATA), tf.constant(INDICES)
    for _ in range(2):
        assert np.shares_memory(data_array(data), np.asarray(data))
        assert np.shares_memory(index_array(indices), np.asarray(indices))
    variable = tf.Variable(DATA)
    assert np.shares_memory(data_array(variable), np.asarray(variable.value()))
    assert gn.gather(data, indices).tolist() == gn.gather(variable, indices).tolist() == EXPECTED
    assert gn.gather(tf.cast(data, tf.bfloat16), indices).dtype.name == "bfloat16"
    with rejected("out cannot be a tensorflow.EagerTensor: TensorFlow's tensors never change; leave out away"):
        gn.gather(data, indices, out=tf.zeros((2, 2)))


def test_tensorflow_tensors_without_values_are_rejected_by_name(tf):
    with rejected(
        "data is a tensorflow.SymbolicTensor, which has no values while TensorFlow traces a function; call g"
    ):
        tf.function(lambda data: gn.gather(data, [0]), autograph=False)(tf.constant(DATA))
    with rejected(r"data is a tensorflow.RaggedTensor, whose rows differ in length; pass data.to_tensor\(\)"):
        gn.gather(tf.ragged.constant([[1], [2, 3]]), [0])
    with rejected("data is a tensorflow._RangeDataset, which is no tensor; pass its values, such as numpy.stack"):
        gn.gather(tf.data.Dataset.range(3), [0])
    with rejected("data is a tensorflow.SparseTensor, which is sparse; pass tf.sparse.to_dense"):
        gn.gather(tf.sparse.from_dense([[1, 0]]), [0])


@pytest.mark.parametrize("library", ["torch", "jax", "tf"])
def test_an_array_seen_before_is_found_by_the_fast_call(library, request, monkeypatch):
    from gathernest.kernels import gather

    module = request.getfixturevalue(library)
    make = {"torch": "tensor", "tf": "constant"}.get(library)
    convert = module.numpy.asarray if make is None else getattr(module, make)
    data, indices = convert(DATA), convert(INDICES)
    for _ in range(3):
        gn.gather(data, indices)
    monkeypatch.setattr(gather, "run_operator", None)
    assert gn.gather(data, indices).tolist() == EXPECTED


def test_out_of_torch_is_written_by_gradients_too(torch):
    out = torch.ones(3)
    assert gn.gather_grad(np.ones(2, np.float32), [1, 1], (3,), out=out) is out
    assert out.tolist() == [0, 2, 0] and out_array(out).ctypes.data == out.data_ptr()
