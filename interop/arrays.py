"""Arguments that are no ndarray: `as_array` reads them, `as_out` gives their memory to write to.

Protocols (DLPack, buffers, `__array_interface__`, `__array__`) say where the memory is; a library's own rule is asked
first, for what it has besides: other dtypes, nulls, labels, traced, lazy and sparse arrays. Only values are read. A
dask array stays one, and so does what lies in a file of h5py or zarr where the caller can read its rows. Nothing here
imports a library: its module is there when one of its arrays is.
"""

import math
import sys
from collections.abc import Callable, Iterator, Set, ValuesView
from typing import Any

import numpy as np

from ..ir.errors import GathernestError, InvalidGatherError
from ..ir.problem import check_addresses

Read = Callable[[Any], np.ndarray]
# An array, and a function that reads others of exactly this type in less time; it may fail, and then this way decides.
Found = tuple[Any, Read | None]

# Where DLPack says that memory lies; the CPU can read 1, 3 and 11.
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA", 14: "oneAPI"}
_MEMORY = ("__array_interface__", "__array_struct__", "__buffer__")


def as_array(given: Any, name: str, keeps_stored: bool = False) -> Found:
    """Return an argument as an ndarray, on the same memory where it can be; or a dask or stored array as it is.

    Args:
        given: no ndarray.
        name: of the argument, for messages.
        keeps_stored: whether an array in a file stays there; otherwise it is read whole.

    Returns:
        The array, and a function that reads later arguments of this type in less time, if there is one.

    Raises:
        InvalidGatherError: it has no values (traced, lazy), not those of an array (sparse, ragged, null), or its memory
            is out of the CPU's reach. The message says what to pass.
    """
    read, _ = _library_of(given)
    try:
        if read is _stored:
            return _stored(given, name, keeps_stored)
        if read is not None:
            _check_values(given, name)
            return read(given, name)
        array = _read(given, name)
    except (GathernestError, MemoryError):
        raise
    except Exception as error:  # of whatever library it is
        way = f"pass an array of numbers that NumPy has, such as numpy.asarray({name})"
        raise _rejected(given, name, f"which does not make an array: {error}", way) from None
    if name == "data" and array.shape == () and not isinstance(given, np.generic | complex):
        raise InvalidGatherError(
            f"data is a {_type_name(given)}, which NumPy takes for one value; pass an array, or a list of values"
        )
    return array, None


def as_out(out: Any, keeps_stored: bool = False) -> Any:
    """Return an ndarray on the memory of `out`, which is no ndarray and will be written to; or a stored array itself.

    Torch is told so before it is: a gradient that needs the old values is an error then, also where the call fails.

    Raises:
        InvalidGatherError: it has no memory that can be shared, or may not be written to.
    """
    if keeps_stored and is_stored(out):
        return out
    read, unwritten = _library_of(out)
    if unwritten:
        raise InvalidGatherError(f"out cannot be a {_type_name(out)}: {unwritten}")
    try:
        if read is not None:
            _check_values(out, "out")
        if read is _torch and isinstance(out, sys.modules["torch"].Tensor):
            from .torch_tensors import count_change

            values, _ = _torch(out, "out")
            if out.is_conj() or out.is_neg() or out._is_zerotensor():
                raise InvalidGatherError("out has lazy conjugates, signs or zeros; pass torch.empty_like(out)")
            count_change(out)
            return values
        if read is _xarray and isinstance(getattr(out, "data", None), np.ndarray):
            return np.asarray(out.data)
        _check_device(out, "out")
        if _has_memory(out):
            return np.asarray(out, copy=False)
        if hasattr(out, "__dlpack__"):
            return np.from_dlpack(out, copy=False)
    except (GathernestError, MemoryError):
        raise
    except Exception as error:  # of whatever library it is
        reason = str(error).partition("\n")[0]  # NumPy's advice for other callers is in the lines behind it
        raise InvalidGatherError(f"out is a {_type_name(out)} whose memory cannot be shared: {reason}") from None
    raise InvalidGatherError(
        f"out must be an ndarray, got {type(out).__name__}; an array that shares its memory by DLPack, "
        "__array_interface__ or a buffer works, too"
    )


def is_stored(array: Any) -> bool:
    """Return whether an array lies in a file or a store of h5py's or zarr's, without importing them."""
    for module, kind in (("h5py", "Dataset"), ("zarr", "Array")):
        if isinstance(array, getattr(sys.modules.get(module), kind, ())):
            return True
    return False


def check_open(stored: Any, name: str) -> None:
    """Raise InvalidGatherError for a stored array whose file was closed."""
    if type(stored).__module__.startswith("h5py") and hasattr(stored, "id") and not stored:
        raise InvalidGatherError(
            f"{name} is an h5py.Dataset whose file was closed; open the file, and close it after the call"
        )


def _library_of(given: Any) -> tuple[Callable[..., Found] | None, str]:
    """Return the row of the library that an object's class or one of its bases is of; None and "" of another."""
    for kind in type(given).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in _LIBRARIES and root in sys.modules:
            return _LIBRARIES[root]
    return None, ""


def _check_values(given: Any, name: str) -> None:
    """Raise InvalidGatherError for an object of a class in `_WITHOUT_VALUES`."""
    for kind in type(given).__mro__:
        if found := _WITHOUT_VALUES.get(f"{kind.__module__.partition('.')[0]}.{kind.__name__}"):
            raise _rejected(given, name, found[0], found[1].format(name))


def _type_name(given: Any) -> str:
    """Return the name of an object's type as its users write it: `torch.Tensor`, not where the library defines it."""
    kind = type(given)
    root = kind.__module__.partition(".")[0]
    return kind.__qualname__ if root == "builtins" else f"{root}.{kind.__qualname__}"


def _rejected(given: Any, name: str, what: str, way_out: str) -> InvalidGatherError:
    """Return the error of an argument: its type, what is wrong with it, and what works."""
    return InvalidGatherError(f"{name} is a {_type_name(given)}, {what}; {way_out}")


def _read(given: Any, name: str) -> np.ndarray:
    """Return an object as an ndarray by the protocols that it has, on the same memory where one gives it."""
    _check_device(given, name)
    is_no_sequence = isinstance(given, Iterator | Set | ValuesView)
    if is_no_sequence and name != "indices":
        raise _rejected(given, name, "which is no sequence", f"pass list({name}), or numpy.fromiter({name}, dtype)")
    densify = next((call for call in ("toarray", "todense") if hasattr(given, call)), "")
    if densify:
        rows = ", or take rows by data[indices]" if name == "data" else ""
        raise _rejected(given, name, "which is sparse", f"pass {name}.{densify}(){rows}")
    if hasattr(given, "__dlpack__") and not hasattr(given, "__array__") and not _has_memory(given):
        return np.from_dlpack(given)
    return np.asarray(given)


def _check_device(given: Any, name: str) -> None:
    """Check that an array lies in memory that the CPU can read; raises InvalidGatherError, which names the device."""
    try:
        kind = int(type(given).__dlpack_device__(given)[0])
    except Exception:  # one without DLPack, or without memory, whose own rule says more
        return
    if kind in _DEVICES:
        raise _rejected(given, name, f"in the memory of a {_DEVICES[kind]} device", "copy it to the CPU first")


def _has_memory(given: Any) -> bool:
    if isinstance(given, np.generic):
        return False
    if any(hasattr(given, protocol) for protocol in _MEMORY):
        return True
    try:
        memoryview(given).release()
    except (TypeError, ValueError, BufferError):
        return False
    return True


def _torch(given: Any, name: str) -> Found:
    torch = sys.modules["torch"]
    if not isinstance(given, torch.Tensor):
        return _read(given, name), None
    from .torch_tensors import MOVABLE, PLAIN, array_of, what_is_wrong

    wrong = what_is_wrong(given, name)
    if wrong is not None:
        raise _rejected(given, name, wrong[0], f"pass {wrong[1]}")
    if given.dtype not in MOVABLE:
        raise _rejected(given, name, f"of {given.dtype}, which NumPy has not", "convert it to a dtype that NumPy has")
    if given.requires_grad and torch.is_grad_enabled():
        way = f"call gathernest.torch for a gradient, or pass {name}.detach()"
        raise _rejected(given, name, "which requires a gradient, and it would be lost", way)
    try:
        array = array_of(given)
    except RuntimeError as error:  # a transform such as torch.vmap has wrapped it, or it is a wrapper of another tensor
        way = "call gathernest outside of torch.func's transforms, or gathernest.torch inside"
        way = way if type(given) in PLAIN else "pass a torch.Tensor of its values"
        raise _rejected(given, name, f"which has no memory of its own ({error})", way) from None
    return array, torch.Tensor.numpy if type(given) is torch.Tensor else None


def _jax(given: Any, name: str) -> Found:
    is_on_cpu = type(given).__name__ == "ArrayImpl" and sys.modules["jax"].default_backend() == "cpu"
    return _read(given, name), np.asarray if is_on_cpu else None


def _tensorflow(given: Any, name: str) -> Found:
    tf = sys.modules["tensorflow"]
    if isinstance(given, tf.Variable):
        given = given.value()  # the same memory; its __array__ copies
    is_on_cpu = type(given).__name__ == "EagerTensor" and not tf.config.list_physical_devices("GPU")
    return _read(given, name), np.asarray if is_on_cpu else None


def _has_nulls(given: Any, name: str, calls: str) -> InvalidGatherError:
    return _rejected(given, name, "with nulls, which an array of values cannot have", f"pass {name}.{calls}")


def _check_columns(given: Any, name: str, way: str) -> None:
    """Check that the columns of a frame have one dtype; raises InvalidGatherError."""
    kinds = list(dict.fromkeys(map(str, given.dtypes)))
    if len(kinds) > 1:
        what = f"whose columns differ in dtype ({', '.join(kinds)})"
        raise _rejected(given, name, what, f"pass one column, or {name}{way}")


def _pandas(given: Any, name: str) -> Found:
    columns = [given]
    if isinstance(given, sys.modules["pandas"].DataFrame):
        _check_columns(given, name, "[columns].to_numpy(dtype)")
        columns = [given.iloc[:, place] for place in range(given.shape[1])]
    for column in columns:
        if not isinstance(getattr(column, "dtype", None), np.dtype | None) and column.isna().any():
            raise _has_nulls(given, name, f"fillna(value), or {name}.to_numpy(dtype, na_value=value)")
    return _read(given, name), None


def _polars(given: Any, name: str) -> Found:
    polars = sys.modules["polars"]
    _check_nulls_of_polars(given, name)
    if isinstance(given, polars.DataFrame):
        _check_columns(given, name, ".select(columns).to_numpy()")
    dtypes = given.dtypes if isinstance(given, polars.DataFrame) else [given.dtype]
    wide = next((str(dtype) for dtype in dtypes if str(dtype) in ("Int128", "UInt128")), None)
    if wide is not None:
        raise _rejected(given, name, f"of {wide}, which NumPy has not", f"pass {name}.cast(polars.Int64)")
    if isinstance(given, polars.Series) and isinstance(given.dtype, polars.Array):
        return _pyarrow(given.to_arrow(), name) if "pyarrow" in sys.modules else (given.to_numpy(), None)
    return given.to_numpy(), None


def _check_nulls_of_polars(given: Any, name: str) -> None:
    """Check that no value is null, and none within one; raises InvalidGatherError, which names the values."""
    polars, count, dtype = sys.modules["polars"], given.null_count(), getattr(given, "dtype", None)
    if (count if isinstance(count, int) else sum(count.row(0))) > 0:
        raise _has_nulls(given, name, f"fill_null(value), or {name}.drop_nulls()")
    if isinstance(dtype, polars.Array):
        _check_nulls_of_polars(given.explode(), f"{name}.explode()")
    if isinstance(dtype, polars.Struct):
        _check_nulls_of_polars(given.struct.unnest(), f"{name}.struct.unnest()")


def _check_nulls_of_pyarrow(given: Any, name: str) -> None:
    """Check that no value within an array of pyarrow is null; its own `null_count` leaves inner values out."""
    pyarrow = sys.modules["pyarrow"]
    is_encoded = isinstance(given, pyarrow.DictionaryArray | pyarrow.RunEndEncodedArray)
    if given.null_count or (is_encoded and given.is_null().true_count):
        raise _has_nulls(given, name, f"fill_null(value), or {name}.drop_null()")
    if hasattr(given, "storage"):
        _check_nulls_of_pyarrow(given.storage, f"{name}.storage")
    if hasattr(given, "value_lengths") and not isinstance(given, pyarrow.MapArray):
        _check_nulls_of_pyarrow(given.flatten(), f"{name}.flatten()")


def _pyarrow(given: Any, name: str) -> Found:
    pyarrow = sys.modules["pyarrow"]
    if getattr(given, "null_count", 0):
        raise _has_nulls(given, name, f"fill_null(value), or {name}.drop_null()")
    if isinstance(given, pyarrow.ChunkedArray):
        given = given.chunk(0) if given.num_chunks == 1 else given.combine_chunks()
    if isinstance(given, pyarrow.Array):  # a Tensor or a Buffer has no nulls
        _check_nulls_of_pyarrow(given, name)
    if isinstance(given, pyarrow.FixedShapeTensorArray):
        return given.to_numpy_ndarray(), None
    if isinstance(given, pyarrow.FixedSizeListArray):  # the vector columns of Parquet
        values, _ = _pyarrow(given.flatten(), name)
        return values.reshape(len(given), given.type.list_size, *values.shape[1:]), None
    return _read(given, name), None


def _xarray(given: Any, name: str) -> Found:
    return (given.data, None) if isinstance(given.data, np.ndarray) else as_array(given.data, name)


def _awkward(given: Any, name: str) -> Found:
    way = (
        f"pass awkward.to_numpy(awkward.pad_none({name}, length, clip=True)) with its nulls filled, or awkward.flatten"
    )
    try:
        return sys.modules["awkward"].to_numpy(given, allow_missing=False), None
    except ValueError:
        raise _rejected(given, name, "whose rows differ in length or are null", way) from None


def _dask(given: Any, name: str) -> Found:
    array = getattr(sys.modules.get("dask.array"), "Array", ())
    if isinstance(given, array):
        if given.__class__.__module__ != "dask.array.core":
            raise InvalidGatherError(
                "gathers of dask arrays do not work with dask's option 'array.query-planning', which is on; set it to "
                "False before dask.array is imported"
            )
        what, meta = "", given._meta
        if any(map(math.isnan, given.shape)):
            what = f"of unknown size, its shape is {given.shape}; find their sizes with {name}.compute_chunk_sizes()"
        elif isinstance(meta, np.ma.MaskedArray):
            what = f"with masks, and their masks would be lost; pass dask.array.ma.filled({name}, value)"
        elif not isinstance(meta, np.ndarray):
            way = f"{name}.map_blocks(numpy.asarray)"
            what = f"of {type(meta).__name__}, and gathers need ndarrays; convert them with {way}"
        if what:
            raise InvalidGatherError(f"{name} has chunks {what}")
        return given, None
    if hasattr(given, "__dask_graph__"):
        raise _rejected(given, name, "which is no array yet", f"pass {name}.compute()")
    return _read(given, name), None


def _stored(given: Any, name: str, is_kept: bool) -> Found:
    check_open(given, name)
    if not hasattr(given, "dtype") or not hasattr(given, "shape"):
        raise _rejected(given, name, "which is no array", "pass one of its arrays")
    if given.shape is None:
        raise InvalidGatherError(f"{name} is an empty h5py.Dataset without a shape; pass one with elements")
    if is_kept and is_stored(given):  # another one is a view of h5py's, which has no chunks
        return given, None
    shape, dtype = tuple(given.shape), np.dtype(given.dtype)
    check_addresses(name, shape, dtype)
    return given[...], None


_TRACED = "which has no values while a call is traced"
_BY_TORCH = "call the functions of gathernest.torch, which torch.compile traces, or pass a tensor with elements"
_LATER = "which is no array yet"
_COLUMNS = "whose columns are arrays of their own"
# Classes of objects without values of an array: what they are, and what to pass in the place of the argument `{}`.
_WITHOUT_VALUES = {
    "torch.FakeTensor": (_TRACED, _BY_TORCH),
    "torch.FunctionalTensor": (_TRACED, _BY_TORCH),
    "torch.MaskedTensor": ("and its mask would be lost", "pass {0}.to_tensor(value)"),
    "jax.Tracer": (_TRACED, "call gathernest outside jax.jit, vmap and grad, or inside by jax.pure_callback"),
    "tensorflow.SymbolicTensor": (_TRACED, "call gathernest outside tf.function, or inside it by tf.numpy_function"),
    "tensorflow.RaggedTensor": ("whose rows differ in length", "pass {0}.to_tensor(), or {0}.flat_values"),
    "tensorflow.SparseTensor": ("which is sparse", "pass tf.sparse.to_dense({0})"),
    "tensorflow.IndexedSlices": ("which is sparse", "pass tf.convert_to_tensor({0})"),
    "tensorflow.DatasetV2": ("which is no tensor", "pass its values, such as numpy.stack(list({0}))"),
    "polars.LazyFrame": ("which has no values yet", "pass {0}.collect()"),
    "polars.Expr": ("which has no values", "pass a column or a frame"),
    "pyarrow.Table": (_COLUMNS, "pass one column, such as {0}.column(0)"),
    "pyarrow.RecordBatch": (_COLUMNS, "pass one column, such as {0}.column(0)"),
    "xarray.Dataset": ("of several arrays", "pass one of them, such as {0}['name']"),
    "xarray.DataTree": ("of several arrays", "pass one of them, such as {0}['name']"),
    "dask.Delayed": (_LATER, "pass dask.array.from_delayed({0}, shape, dtype), whose gathers stay lazy"),
    "dask.FrameBase": (_LATER, "pass {0}.to_dask_array(lengths=True), whose gathers stay lazy"),
}
_NEVER_CHANGE = "jax's arrays never change; leave out away, and pass the result to jax.numpy.asarray"
# How the arrays of a library are read; and why they cannot be written in place, with what works.
_LIBRARIES: dict[str, tuple[Callable[..., Found], str]] = {
    "torch": (_torch, ""),
    "jax": (_jax, _NEVER_CHANGE),
    "jaxlib": (_jax, _NEVER_CHANGE),
    "tensorflow": (
        _tensorflow,
        "TensorFlow's tensors never change; leave out away, and pass the result to tf.convert_to_tensor",
    ),
    "pandas": (_pandas, "its values are read-only; leave out away, and assign the result"),
    "polars": (_polars, "its values are read-only; leave out away, and make a new one of the result"),
    "pyarrow": (_pyarrow, "its values are read-only; leave out away, and pass the result to pyarrow.array"),
    "xarray": (_xarray, ""),
    "awkward": (_awkward, ""),
    "dask": (
        _dask,
        "it has no memory; leave out away, which gives a dask array, or pass a zarr.Array or an h5py.Dataset",
    ),
    "h5py": (_stored, "it lies in a file; leave out away, and write the result with out[...] = result"),
    "zarr": (_stored, "it lies in a store; leave out away, and write the result with out[...] = result"),
}
