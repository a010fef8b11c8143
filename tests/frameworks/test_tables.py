"""Arguments of pandas, polars, pyarrow, xarray, SciPy and awkward: their values are gathered, and nothing is lost."""

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.runtime.array_checks import data_array

VALUES = np.arange(4.0)


def library(name: str):
    return pytest.importorskip(name, reason=f"{name} is not installed")


def rejected(message: str):
    return pytest.raises(gn.InvalidGatherError, match=message)


def test_pandas_values_are_gathered_without_a_copy_and_nulls_rejected():
    pandas = library("pandas")
    series = pandas.Series(VALUES, index=list("abcd"), name="values")
    assert np.shares_memory(data_array(series), series.array.to_numpy())
    found = gn.gather(series, pandas.Index([3, 1]))
    assert type(found) is np.ndarray and found.tolist() == [3, 1]
    assert gn.gather(pandas.DataFrame({"a": [1, 2], "b": [3, 4]}), [1]).tolist() == [[2, 4]]
    assert gn.gather(series.astype("Int64"), [2]).dtype == np.int64
    with rejected("data is a pandas.Series, with nulls, which an array of values cannot have; pass data.fillna"):
        gn.gather(pandas.Series([1, None], dtype="Int64"), [0])
    with rejected(r"indices is a pandas.Series, with nulls"):
        gn.gather(VALUES, pandas.Series([1, None], dtype="Int64"))
    with rejected(r"data is a pandas.DataFrame, whose columns differ in dtype \(int64, float64\); pass one column, or"):
        gn.gather(pandas.DataFrame({"a": [1], "b": [1.5]}), [0])
    with rejected("out cannot be a pandas.Series: its values are read-only; leave out away, and assign the result"):
        gn.gather(VALUES, [0, 1], out=pandas.Series([0.0, 0.0]))


def test_polars_values_are_gathered_and_nulls_rejected():
    polars = library("polars")
    assert gn.gather(polars.Series(VALUES), polars.Series([3, 1])).tolist() == [3, 1]
    assert gn.gather(polars.DataFrame({"a": [1, 2], "b": [3, 4]}), [1]).tolist() == [[2, 4]]
    with rejected(r"data is a polars.Series, with nulls, .*; pass data.fill_null\(value\), or data.drop_nulls\(\)"):
        gn.gather(polars.Series([1, None]), [0])
    with rejected(r"data is a polars.DataFrame, whose columns differ in dtype \(Int64, Float64\)"):
        gn.gather(polars.DataFrame({"a": [1], "b": [1.5]}), [0])
    with rejected(r"data is a polars.LazyFrame, which has no values yet; pass data.collect\(\)"):
        gn.gather(polars.DataFrame({"a": [1]}).lazy(), [0])


def test_what_has_no_values_yet_is_rejected():
    polars, frames, pandas = library("polars"), library("dask.dataframe"), library("pandas")
    with rejected("data is a polars.Expr, which has no values; pass a column or a frame"):
        gn.gather(polars.col("a"), [0])
    with rejected(r"data is a dask.DataFrame, which is no array yet; pass data.to_dask_array\(lengths=True\), whose"):
        gn.gather(frames.from_pandas(pandas.DataFrame({"a": [1]}), npartitions=1), [0])


def test_what_dask_computes_later_is_rejected():
    dask, array, bag = library("dask"), library("dask.array"), library("dask.bag")
    with rejected(
        r"data is a dask.DelayedLeaf, which is no array yet; pass dask.array.from_delayed\(data, shape, dtype\)"
    ):
        gn.gather(dask.delayed(VALUES), [0])
    with rejected(r"data is a dask.Bag, which is no array yet; pass data.compute\(\)$"):
        gn.gather(bag.from_sequence([1, 2]), [0])
    with rejected(
        "out cannot be a dask.Array: it has no memory; leave out away, which gives a dask array, or pass a z"
    ):
        gn.gather(VALUES, [0], out=array.zeros(1))


def test_pyarrow_values_are_gathered_without_a_copy_and_nulls_rejected():
    pyarrow = library("pyarrow")
    array = pyarrow.array(VALUES)
    assert data_array(array).ctypes.data == array.buffers()[1].address
    assert data_array(pyarrow.chunked_array([array])).ctypes.data == array.buffers()[1].address
    assert gn.gather(array, pyarrow.array([3, 1])).tolist() == [3, 1]
    assert gn.gather(pyarrow.chunked_array([[1, 2], [3]]), [2, 0]).tolist() == [3, 1]
    with rejected(r"data is a pyarrow.Int64Array, with nulls, .*; pass data.fill_null\(value\), or data.drop_null\(\)"):
        gn.gather(pyarrow.array([1, None]), [0])
    with rejected(r"data is a pyarrow.Table, whose columns are arrays of their own; pass one column, data\['a'\]"):
        gn.gather(pyarrow.table({"a": [1]}), [0])


def test_xarray_values_are_gathered_without_a_copy_and_written():
    xarray = library("xarray")
    array = xarray.DataArray(VALUES, dims="x", coords={"x": list("abcd")})
    assert np.shares_memory(data_array(array), VALUES)
    found = gn.gather(array, xarray.DataArray([3, 1], dims="y"))
    assert type(found) is np.ndarray and found.tolist() == [3, 1]
    out = xarray.zeros_like(array[:2])
    assert gn.gather(array, [2, 0], out=out) is out and out.values.tolist() == [2, 0]
    with rejected(r"data is a xarray.Dataset, of several arrays; pass one of them, data\['a'\]"):
        gn.gather(xarray.Dataset({"a": array}), [0])


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


def test_sparse_and_ragged_arrays_are_rejected_with_a_way_out():
    sparse = library("scipy.sparse")
    for matrix in (sparse.csr_array(np.eye(3)), sparse.coo_matrix(np.eye(3))):
        name = type(matrix).__name__
        with rejected(
            rf"data is a scipy.{name}, which is sparse; pass data.toarray\(\), or take rows by data\[indices"
        ):
            gn.gather(matrix, [0])
    awkward = library("awkward")
    assert gn.gather(awkward.Array([[1, 2], [3, 4]]), [1]).tolist() == [[3, 4]]
    with rejected("data is a awkward.Array, whose rows differ in length or are null; pass awkward.to_numpy"):
        gn.gather(awkward.Array([[1], [2, 3]]), [0])


def test_rows_of_a_list_that_differ_in_length_are_rejected_with_a_way_out():
    with rejected("data does not make an array: .*inhomogeneous"):
        gn.gather([[1], [2, 3]], [0])
