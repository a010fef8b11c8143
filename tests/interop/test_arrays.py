"""Arrays of other libraries: read and written in place by protocols, and one error where they cannot be."""

import array
import ctypes
import decimal
import inspect

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.runtime.array_checks import data_array, index_array, out_array
from gathernest.tools.bench import peers

DATA, INDICES = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([2, 0])
EXPECTED = [[4, 5], [0, 1]]
VALUES = np.arange(4.0)


def library(name: str):
    return pytest.importorskip(name, reason=f"{name} is not installed")


def rejected(message: str):
    return pytest.raises(gn.InvalidGatherError, match=message)


@pytest.fixture(scope="module")
def tf():
    """TensorFlow with one thread: it takes another number at its first use only."""
    module = library("tensorflow")
    peers.PEERS["tensorflow"]().start(1)
    return module


@pytest.fixture(scope="module")
def torch():
    return library("torch")


@pytest.fixture(scope="module")
def jax():
    return library("jax")


class Interface:
    """An array that has `__array_interface__` alone."""

    def __init__(self, values: np.ndarray):
        self._values = values
        self.__array_interface__ = values.__array_interface__


class Dlpack:
    """An array that has DLPack alone, on a device of one's choice."""

    def __init__(self, values: np.ndarray, device: int = 1):
        self._values, self._device = values, device

    def __dlpack__(self, **options: object) -> object:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0


class Converted:
    """An array that NumPy must convert, and that is not written in place so."""

    def __array__(self, dtype=None, copy=None):
        return np.arange(3.0)


WAYS = {"__array_interface__": Interface, "DLPack": Dlpack, "buffer": memoryview}


@pytest.mark.parametrize("way", WAYS)
def test_data_and_indices_are_read_in_place(way):
    values, indices = np.arange(6.0).reshape(3, 2), np.array([2, 0])
    assert np.shares_memory(data_array(WAYS[way](values)), values)
    assert np.shares_memory(index_array(WAYS[way](indices)), indices)
    assert gn.gather(WAYS[way](values), WAYS[way](indices)).tolist() == [[4, 5], [0, 1]]


@pytest.mark.parametrize("way", WAYS)
def test_a_result_goes_into_the_memory_of_out_which_is_returned(way):
    values, result = np.arange(6.0).reshape(3, 2), np.zeros((1, 2))
    out = WAYS[way](result)
    for row in (1, 2, 0):
        assert gn.gather(values, [row], out=out) is out
        assert result.tolist() == [values[row].tolist()]
    assert gn.take(values, [1], 0, out) is out and result.tolist() == [[2, 3]]
    assert gn.ops["onnx.Gather-13"](values, [2], out=out) is out and result.tolist() == [[4, 5]]
    assert gn.gather_grad(np.ones((1, 2)), [0], (1, 2), out=out) is out and result.tolist() == [[1, 1]]
    kernel = gn.compile("gather", values, np.array([0]))
    assert kernel(values, np.array([2]), out=out) is out and result.tolist() == [[4, 5]]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
@pytest.mark.parametrize("lengths", [None, [2]])
def test_sums_of_bags_go_into_the_memory_of_out_which_is_returned(way, reduce, lengths):
    values, result, table = np.arange(6.0).reshape(3, 2), np.zeros((1, 2)), np.ones((3, 2))
    out, indices = WAYS[way](result), [2, 0] if lengths else [[2, 0]]
    assert gn.gather_reduce(values, indices, lengths=lengths, reduce=reduce, out=out) is out
    assert result.tolist() == gn.gather_reduce(values, indices, lengths=lengths, reduce=reduce).tolist()
    out, options = WAYS[way](table), {"lengths": lengths, "reduce": reduce}
    options |= {"data": values} if reduce == "max" else {}
    assert gn.gather_reduce_grad(result, indices, (3, 2), out=out, **options) is out
    assert table.tolist() == gn.gather_reduce_grad(result, indices, (3, 2), **options).tolist()
    assert table[1].tolist() == [0, 0]


def test_arrays_of_the_standard_library_work():
    out = array.array("d", [0, 0])
    assert gn.gather(array.array("d", [5, 6, 7]), array.array("q", [2, 0]), out=out) is out
    assert out.tolist() == [7, 5]
    assert gn.gather((ctypes.c_int * 3)(5, 6, 7), range(2)).tolist() == [5, 6]


@pytest.mark.parametrize("kind", [RuntimeError, KeyError, ValueError])
def test_an_array_that_fails_to_convert_says_why(kind):
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise kind("the file is closed")

    for name, arguments in (("data", (Broken(), [0])), ("indices", ([0], Broken()))):
        with rejected(f"{name} is a .*Broken, which does not make an array: '?the file is closed'?; pass an arra"):
            gn.gather(*arguments)


class Huge:
    """An array that says to have more bytes than there are addresses."""

    shape, dtype, ndim = (2**62, 8), np.dtype("f8"), 2

    def __array__(self, dtype=None, copy=None):
        return np.broadcast_to(np.float64(1), self.shape)


def test_sizes_beyond_all_addresses_are_rejected():
    many = np.broadcast_to(np.int8(0), (2**61,))
    for call in (
        lambda: gn.gather(Huge(), [0]),
        lambda: gn.gather(np.zeros(3), many),
        lambda: gn.take(np.zeros(3), many),
        lambda: gn.take_along_axis(np.zeros((1, 3)), many[:, None], 1),
        lambda: gn.gather_elements(np.zeros(3), many),
        lambda: gn.gather_grad(np.ones((1, 2)), [0], (2**62, 2)),
        lambda: gn.gather_reduce(np.zeros((3, 4)), many[:, None]),
    ):
        with pytest.raises(gn.GathernestError, match=r"2\*\*63 bytes or more|too large|too big"):
            call()


def test_pandas_values_are_gathered_without_a_copy():
    pandas = library("pandas")
    series = pandas.Series(VALUES, index=list("abcd"), name="values")
    assert np.shares_memory(data_array(series), series.array.to_numpy())
    found = gn.gather(series, pandas.Index([3, 1]))
    assert type(found) is np.ndarray and found.tolist() == [3, 1]
    assert gn.gather(pandas.DataFrame({"a": [1, 2], "b": [3, 4]}), [1]).tolist() == [[2, 4]]
    assert gn.gather(series.astype("Int64"), [2]).dtype == np.int64


def test_polars_values_are_gathered():
    polars = library("polars")
    assert gn.gather(polars.Series(VALUES), polars.Series([3, 1])).tolist() == [3, 1]
    assert gn.gather(polars.DataFrame({"a": [1, 2], "b": [3, 4]}), [1]).tolist() == [[2, 4]]
    assert gn.gather(polars.Series([[1, 2], [3, 4]], dtype=polars.Array(polars.Int64, 2)), [1]).tolist() == [[3, 4]]


def test_pyarrow_values_are_gathered_without_a_copy():
    pyarrow = library("pyarrow")
    array = pyarrow.array(VALUES)
    assert data_array(array).ctypes.data == array.buffers()[1].address
    assert data_array(pyarrow.chunked_array([array])).ctypes.data == array.buffers()[1].address
    assert gn.gather(array, pyarrow.array([3, 1])).tolist() == [3, 1]
    assert gn.gather(pyarrow.chunked_array([[1, 2], [3]]), [2, 0]).tolist() == [3, 1]
    assert gn.gather(pyarrow.Tensor.from_numpy(np.eye(2)), pyarrow.py_buffer(b"\1")).tolist() == [[0, 1]]


def test_vector_columns_of_arrow_are_matrices():
    pyarrow = library("pyarrow")
    wanted = np.arange(12.0).reshape(6, 2)
    column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(wanted.ravel()), 2)
    cube = pyarrow.FixedSizeListArray.from_arrays(column, 3)
    values = column.flatten()
    assert data_array(column).ctypes.data == values.buffers()[1].address
    for given in (column, column[2:], pyarrow.chunked_array([column[:1], column[1:]]), pyarrow.chunked_array([column])):
        rows = wanted[len(wanted) - len(given) :]
        assert gn.gather(given, [3, -1]).tolist() == rows[[3, -1]].tolist()
        assert gn.gather_reduce(given, [[0, 2]]).tolist() == [(rows[0] + rows[2]).tolist()]
    assert gn.gather(cube, [1]).tolist() == wanted.reshape(2, 3, 2)[1:].tolist()
    assert gn.gather(pyarrow.FixedShapeTensorArray.from_numpy_ndarray(wanted), [5]).tolist() == wanted[5:].tolist()
    assert data_array(pyarrow.chunked_array([], column.type)).shape == (0, 2)


@pytest.mark.thorough  # test_every_array.py has the sums
def test_bags_of_foreign_byte_order_are_those_of_native_rows():
    rows, weights = np.arange(6.0).reshape(3, 2), np.array([[0.5, 2.0]])
    for dtype, options in {
        ">f8": {"weights": weights},
        ">f4": {"reduce": "max"},
        ">f2": {"reduce": "mean"},
        ">i4": {"reduce": "sum"},
        ">c8": {"reduce": "mean"},
    }.items():
        data, native = rows.astype(dtype), rows.astype(np.dtype(dtype).newbyteorder("="))
        found, wanted = (gn.gather_reduce(array, [[0, 2]], **options) for array in (data, native))
        assert found.dtype == data.dtype and found.tolist() == wanted.tolist()
        grad = gn.gather_reduce_grad(data[:1], [[0, 2]], (3, 2))
        assert grad.dtype == data.dtype and grad.tolist() == [[0, 1], [0, 0], [0, 1]]
    assert gn.gather_reduce_weights_grad(rows[:1].astype(">f8"), rows, [[0, 2]]).tolist() == [[1, 5]]


def test_xarray_values_are_gathered_without_a_copy_and_written():
    xarray = library("xarray")
    array = xarray.DataArray(VALUES, dims="x", coords={"x": list("abcd")})
    assert np.shares_memory(data_array(array), VALUES)
    found = gn.gather(array, xarray.DataArray([3, 1], dims="y"))
    assert type(found) is np.ndarray and found.tolist() == [3, 1]
    out = xarray.zeros_like(array[:2])
    assert gn.gather(array, [2, 0], out=out) is out and out.values.tolist() == [2, 0]


def test_xarray_over_dask_stays_lazy():
    xarray, dask = library("xarray"), library("dask.array")

    def read(block):
        raise AssertionError("a block was computed")

    lazy = xarray.DataArray(dask.zeros((8, 2), chunks=4).map_blocks(read, dtype=float, meta=np.empty((0, 0))))
    found = gn.gather(lazy, [5, 1])
    assert isinstance(found, dask.Array) and found.shape == (2, 2)
    array = dask.from_array(np.arange(8.0), chunks=4)
    assert gn.gather(xarray.DataArray(array), [5, 1]).compute().tolist() == [5, 1]
    assert gn.take(xarray.DataArray(array), [5, 1]).compute().tolist() == [5, 1]


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


def test_parameters_are_read_where_no_gradient_is_wanted(torch):
    with torch.no_grad():
        assert gn.gather(torch.nn.Parameter(torch.zeros(3)), [0]).tolist() == [0]


def test_regular_arrays_of_awkward_are_gathered():
    assert gn.gather(library("awkward").Array([[1, 2], [3, 4]]), [1]).tolist() == [[3, 4]]


def test_lazy_conjugates_of_torch_are_computed(torch):
    assert gn.gather(torch.tensor([1 + 2j, 3 - 1j]).conj(), [0]).tolist() == [1 - 2j]


def test_jax_arrays_are_read_in_place_and_never_written(jax):
    data, indices = jax.numpy.asarray(DATA), jax.numpy.asarray(INDICES)
    for _ in range(2):
        assert data_array(data).ctypes.data == data.unsafe_buffer_pointer()
        assert index_array(indices).ctypes.data == indices.unsafe_buffer_pointer()
    assert gn.gather(data, indices).tolist() == EXPECTED
    assert gn.gather(data.astype("bfloat16"), indices).dtype.name == "bfloat16"


def test_jax_calls_back_with_values(jax):
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


def test_out_of_torch_is_written_by_gradients_too(torch):
    out = torch.ones(3)
    assert gn.gather_grad(np.ones(2, np.float32), [1, 1], (3,), out=out) is out
    assert out.tolist() == [0, 2, 0] and out_array(out).ctypes.data == out.data_ptr()


def nulls_of(pyarrow, values):
    return pyarrow.array(values, pyarrow.list_(pyarrow.float32(), 2))


def tensors_of(pyarrow, values):
    kind = pyarrow.fixed_shape_tensor(pyarrow.float32(), [2])
    return pyarrow.ExtensionArray.from_storage(kind, nulls_of(pyarrow, values))


def fake_of(torch, call):
    with torch._subclasses.fake_tensor.FakeTensorMode() as mode:
        return call(mode.from_tensor(torch.zeros(3)))


def failing(torch):
    class Failing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, *rest):
            raise RuntimeError(f"no {function}\nand more")

    return Failing


def pair_of(torch):
    from torch.testing._internal.two_tensor import TwoTensor  # pyright: ignore[reportMissingImports]

    return TwoTensor(torch.zeros(3), torch.zeros(3))


def handle_of(tf):
    gn.gather(tf.zeros(3), [0])  # tensors of this type are read the fast way from now on
    return tf.Variable(VALUES).handle


WIDE = "of Int128, which NumPy has not"
TRACED = "which has no values while a call is traced"
# What is said of each argument that is no array with values; a function has the libraries that it needs by their names.
REJECTED = {
    "out must be an ndarray, got Converted; an array that shares its memory by DLPack, ":
        lambda: gn.gather(VALUES, [1, 2], out=Converted()),
    "out must be an ndarray, got list": lambda: gn.gather(VALUES, [1, 2], out=[0.0, 0.0]),
    "out is a bytes whose memory cannot be shared": lambda: gn.gather(VALUES, [1, 2], out=b"0123456789abcdef"),
    r"out is a .*Dlpack, in the memory of a CUDA device; copy it to the CPU":
        lambda: gn.gather(VALUES, [1, 2], out=Dlpack(np.zeros(2), 2)),
    "out must be writeable, got a read-only array; pass a copy":
        lambda: gn.gather(VALUES, [1, 2], out=memoryview(b"0123456789abcdef").cast("d")),
    r"out must have shape \(2,\), got \(3,\)": lambda: gn.gather(VALUES, [1, 2], out=Dlpack(np.zeros(3))),
    "in the memory of a CUDA device; copy it to the CPU first": lambda: gn.gather(Dlpack(VALUES, 2), [0]),
    "in the memory of a ROCm device; copy it to the CPU first": lambda: gn.gather(Dlpack(VALUES, 10), [0]),
    "in the memory of a Metal device; copy it to the CPU first": lambda: gn.gather(Dlpack(VALUES, 8), [0]),
    r"data is a generator, which is no sequence; pass list\(data\), or": lambda: gn.gather((n for n in [1, 2]), [0]),
    r"data is a map, which is no sequence": lambda: gn.gather(map(int, "12"), [0]),
    r"data is a set, which is no sequence": lambda: gn.gather({1, 2}, [0]),
    r"data is a dict_values, which is no sequence": lambda: gn.gather({1: 2}.values(), [0]),
    "data does not make an array: .*inhomogeneous": lambda: gn.gather([[1], [2, 3]], [0]),
    "data is a pandas.Series, with nulls, which an array of values cannot have; pass data.fillna":
        lambda pandas: gn.gather(pandas.Series([1, None], dtype="Int64"), [0]),
    "indices is a pandas.Series, with nulls":
        lambda pandas: gn.gather(VALUES, pandas.Series([1, None], dtype="Int64")),
    r"data is a pandas.DataFrame, whose columns differ in dtype \(int64, float64\); pass one column, or":
        lambda pandas: gn.gather(pandas.DataFrame({"a": [1], "b": [1.5]}), [0]),
    "out cannot be a pandas.Series: its values are read-only; leave out away, and assign the result":
        lambda pandas: gn.gather(VALUES, [0, 1], out=pandas.Series([0.0, 0.0])),
    r"data is a polars.Series, with nulls, .*; pass data.fill_null\(value\), or data.drop_nulls\(\)":
        lambda polars: gn.gather(polars.Series([1, None]), [0]),
    r"data is a polars.DataFrame, whose columns differ in dtype \(Int64, Float64\)":
        lambda polars: gn.gather(polars.DataFrame({"a": [1], "b": [1.5]}), [0]),
    r"data is a polars.LazyFrame, which has no values yet; pass data.collect\(\)":
        lambda polars: gn.gather(polars.DataFrame({"a": [1]}).lazy(), [0]),
    "data is a polars.Expr, which has no values; pass a column or a frame":
        lambda polars: gn.gather(polars.col("a"), [0]),
    rf"^data is a polars.Series, {WIDE}; pass data.cast\(polars.Int64\)$":
        lambda polars: gn.gather(polars.Series([1, 2], dtype=polars.Int128), [0]),
    f"^indices is a polars.Series, {WIDE}":
        lambda polars: gn.gather([1, 2], polars.Series([1, 0], dtype=polars.Int128)),
    "^data is a polars.DataFrame, of UInt128":
        lambda polars: gn.gather(polars.DataFrame({"a": polars.Series([1], dtype=polars.UInt128)}), [0]),
    "data must be float16 to float64, .* got object; convert it, for instance with data.astype":
        lambda polars: gn.gather_reduce(polars.Series([decimal.Decimal("1.5")]), [[0]]),
    r"data is a dask.DataFrame, which is no array yet; pass data.to_dask_array\(lengths=True\), whose":
        lambda dask__dataframe, pandas:
            gn.gather(dask__dataframe.from_pandas(pandas.DataFrame({"a": [1]}), npartitions=1), [0]),
    r"data is a dask.DelayedLeaf, which is no array yet; pass dask.array.from_delayed\(data, shape, dtype\)":
        lambda dask: gn.gather(dask.delayed(VALUES), [0]),
    r"data is a dask.Bag, which is no array yet; pass data.compute\(\)$":
        lambda dask__bag: gn.gather(dask__bag.from_sequence([1, 2]), [0]),
    r"data is a pyarrow.Int64Array, with nulls, .*; pass data.fill_null\(value\), or data.drop_null\(\)":
        lambda pyarrow: gn.gather(pyarrow.array([1, None]), [0]),
    r"data is a pyarrow.RecordBatch, whose columns .*; pass one column, such as data.column\(0\)":
        lambda pyarrow: gn.gather(pyarrow.record_batch({"a": [1]}), [0]),
    r"data is a pyarrow.Table, whose columns": lambda pyarrow: gn.gather(pyarrow.table({"a": [1]}), [0]),
    "FixedSizeListArray, with nulls, .*; pass data.fill_null":
        lambda pyarrow: gn.gather(nulls_of(pyarrow, [[1, 2], None]), [0]),
    r"^data.flatten\(\) is a pyarrow.FloatArray, with nulls, .*; pass data.flatten\(\).fill_null\(value\)":
        lambda pyarrow: gn.gather(nulls_of(pyarrow, [[1, None], [3, 4]]), [0]),
    r"^data.flatten\(\) is a pyarrow.Int64Array, with nulls":
        lambda pyarrow: gn.gather(pyarrow.array([[1, None]]), [0]),
    r"^data.storage.flatten\(\) is a pyarrow.FloatArray, with nulls":
        lambda pyarrow: gn.gather(tensors_of(pyarrow, [[1, None], [3, 4]]), [0]),
    "^data is a pyarrow.DictionaryArray, with nulls":
        lambda pyarrow: gn.gather(pyarrow.DictionaryArray.from_arrays([0, 1], pyarrow.array([7, None])), [0]),
    "^data is a pyarrow.RunEndEncodedArray, with nulls":
        lambda pyarrow: gn.gather(pyarrow.RunEndEncodedArray.from_arrays([2, 4], pyarrow.array([7, None])), [0]),
    r"^data.struct.unnest\(\) is a polars.DataFrame, with nulls":
        lambda polars: gn.gather(polars.Series([{"a": None}, {"a": 1}]), [0]),
    r"^data.explode\(\) is a polars.Series, with nulls":
        lambda polars: gn.gather(polars.Series([[1, None]], dtype=polars.Array(polars.Int32, 2)), [0]),
    r"data is a xarray.DataTree, of several arrays; pass one of them, such as data\['name'\]":
        lambda xarray: gn.gather(xarray.DataTree(xarray.Dataset({"a": ("x", VALUES)})), [0]),
    r"data is a xarray.Dataset, of several arrays; pass one of them, such as data\['name'\]":
        lambda xarray: gn.gather(xarray.Dataset({"a": xarray.DataArray(VALUES, dims="x")}), [0]),
    r"data is a scipy.csr_array, which is sparse; pass data.toarray\(\), or take rows by data\[indices":
        lambda scipy__sparse: gn.gather(scipy__sparse.csr_array(np.eye(3)), [0]),
    "data is a scipy.coo_matrix, which is sparse":
        lambda scipy__sparse: gn.gather(scipy__sparse.coo_matrix([[1]]), [0]),
    "data is a awkward.Array, whose rows differ in length or are null; pass awkward.to_numpy":
        lambda awkward: gn.gather(awkward.Array([[1], [2, 3]]), [0]),
    "data is a torch.Tensor, on the device meta|which has no values while a call is traced; call the":
        lambda torch: gn.gather(torch.zeros(3, device="meta"), [0]),
    r"data is a torch.Tensor, of the layout torch.sparse_coo; pass data.to_dense\(\)":
        lambda torch: gn.gather(torch.eye(3).to_sparse(), [0]),
    r"data is a torch.Parameter, which requires a gradient, and it would be lost; call gathernest.torch":
        lambda torch: gn.gather(torch.nn.Parameter(torch.zeros(3)), [0]),
    "out must be an ndarray, got Size; an array that shares its memory by DLPack": (
        lambda torch: gn.gather(VALUES, [1, 2], out=torch.Size([1, 2]))
    ),
    "out is a torch.Tensor, which requires a gradient":
        lambda torch: gn.gather(DATA[0], [0], out=torch.zeros(1, requires_grad=True)),
    "rows differ in length; pass data.to_padded_tensor":
        lambda torch: gn.gather(torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), [0]),
    r"which has no memory of its own .*; call gathernest outside of torch.func's transforms, or":
        lambda torch: torch.vmap(lambda row: gn.gather(row, [0]))(torch.eye(3)),
    "^data is a torch.Tensor, of torch.complex32, which NumPy has not; convert it to a dtype that NumPy":
        lambda torch: gn.gather(torch.zeros(3, dtype=torch.complex32), [0]),
    "data is a torch.FakeTensor, which has no values while a call is traced; call the functions":
        lambda torch: fake_of(torch, lambda fake: gn.gather(fake, [0])),
    "lazy conjugate":
        lambda torch: gn.gather(np.zeros(1, np.complex64), [0], out=torch.zeros(1, dtype=torch.complex64).conj()),
    r"^out has lazy conjugates, signs or zeros; pass torch.empty_like\(out\)":
        lambda torch: gn.gather(VALUES, [0], out=torch._efficientzerotensor((1,), dtype=torch.float64)),
    "^out is a torch.FakeTensor, which has no values while a call is traced; call the functions":
        lambda torch: fake_of(torch, lambda fake: gn.gather(VALUES, [0], out=fake)),
    "^out is a .*Failing whose memory cannot be shared: no ":
        lambda torch: gn.gather(DATA, INDICES, out=torch.zeros(2, 2).as_subclass(failing(torch))),
    "^data does not make an array: Can't call numpy.* on Tensor that requires grad":
        lambda torch: gn.gather([torch.zeros(3, requires_grad=True)], [0]),
    r"^data is a torch.MaskedTensor, and its mask would be lost; pass data.to_tensor\(value\)":
        lambda torch: gn.gather(torch.masked.masked_tensor(torch.zeros(3), torch.ones(3) > 0), [0]),
    r"^data is a .*TwoTensor, which has no memory of its own .*; pass a torch.Tensor of its values$":
        lambda torch: gn.gather(pair_of(torch), [0]),
    "out cannot be a jaxlib.*: jax's arrays never change; leave out away, and pass the result to jax.nump":
        lambda jax: gn.gather(DATA, INDICES, out=jax.numpy.zeros((2, 2))),
    f"data is a jax.DynamicJaxprTracer, {TRACED}; call gathernest outside jax.jit, vmap and grad":
        lambda jax: jax.jit(lambda data: gn.gather(data, [0]))(DATA),
    f"indices is a jax.DynamicJaxprTracer, {TRACED}": lambda jax: jax.jit(lambda at: gn.gather(DATA, at))(INDICES),
    "out cannot be a tensorflow.EagerTensor: TensorFlow's tensors never change; leave out away":
        lambda tf: gn.gather(DATA, INDICES, out=tf.zeros((2, 2))),
    f"data is a tensorflow.SymbolicTensor, {TRACED}; call g":
        lambda tf: tf.function(lambda data: gn.gather(data, [0]), autograph=False)(tf.constant(DATA)),
    r"data is a tensorflow.RaggedTensor, whose rows differ in length; pass data.to_tensor\(\)":
        lambda tf: gn.gather(tf.ragged.constant([[1], [2, 3]]), [0]),
    "data is a tensorflow._RangeDataset, which is no tensor; pass its values, such as numpy.stack":
        lambda tf: gn.gather(tf.data.Dataset.range(3), [0]),
    "^data is a tensorflow.*EagerTensor, which does not make an array: Cannot convert a Tensor of dtype resource":
        lambda tf: gn.gather(handle_of(tf), [0]),
    "data is a tensorflow.SparseTensor, which is sparse; pass tf.sparse.to_dense":
        lambda tf: gn.gather(tf.sparse.from_dense([[1, 0]]), [0]),
}  # fmt: skip


@pytest.mark.parametrize("message", REJECTED)
def test_what_is_no_array_of_values_is_rejected_with_what_works(message, request):
    names = inspect.signature(REJECTED[message]).parameters
    libraries = [request.getfixturevalue("tf") if name == "tf" else library(name.replace("__", ".")) for name in names]
    with pytest.raises(gn.InvalidGatherError, match=message):
        REJECTED[message](*libraries)
