"""What the arrays of each library need beside the protocols: other dtypes, nulls, labels, traced and sparse arrays.

Only values are read. Nothing here imports a library: its module is there when one of its arrays is.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .protocols import read_by_protocol, rejected

Read = Callable[[Any], np.ndarray]
# An array, and a function that reads others of exactly this type in less time; it may fail, and then this way decides.
Found = tuple[Any, Read | None]

_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")


def _torch(given: Any, name: str) -> Found:
    torch = sys.modules["torch"]
    if not isinstance(given, torch.Tensor):
        return read_by_protocol(given, name), None
    kinds = {kind.__name__ for kind in type(given).__mro__}
    if kinds & {"FakeTensor", "FunctionalTensor"} or given.device.type == "meta":
        way = "call the functions of gathernest.torch, which torch.compile traces, or pass a tensor with elements"
        raise rejected(given, name, "which has no values while a call is traced", way)
    if given.device.type != "cpu":
        raise rejected(given, name, f"on the device {given.device}", f"pass {name}.cpu(), or call torch's own function")
    if given.layout is not torch.strided:
        raise rejected(given, name, f"of the layout {given.layout}", f"pass {name}.to_dense()")
    if given.is_nested:
        raise rejected(given, name, "whose rows differ in length", f"pass {name}.to_padded_tensor(0)")
    if given.is_quantized:
        raise rejected(given, name, "of quantized elements", f"pass {name}.int_repr() or {name}.dequantize()")
    if given.requires_grad and torch.is_grad_enabled():
        way = f"call gathernest.torch for a gradient, or pass {name}.detach()"
        raise rejected(given, name, "which requires a gradient, and it would be lost", way)
    try:
        array = torch_values(given.detach())
    except RuntimeError as error:  # a transform such as torch.vmap has wrapped it
        way = "call gathernest outside of torch.func's transforms, or gathernest.torch inside"
        raise rejected(given, name, f"which has no memory of its own ({error})", way) from None
    return array, torch.Tensor.numpy if type(given) is torch.Tensor else None


def count_change(out: Any) -> None:
    """Tell torch that the values of a tensor change: what was saved of it for a gradient is not what it was."""
    if not out.is_inference():
        sys.modules["torch"].autograd.graph.increment_version(out)


def torch_values(tensor: Any) -> np.ndarray:
    """Return a dense CPU tensor as an array on the same memory, in a dtype of ml_dtypes where NumPy has none.

    Lazy conjugates and negations are computed.
    """
    torch = sys.modules["torch"]
    for name in _ML_DTYPES:
        if tensor.dtype is getattr(torch, name, None):
            import ml_dtypes

            words = torch.uint8 if tensor.element_size() == 1 else torch.int16
            return tensor.view(words).numpy().view(getattr(ml_dtypes, name))
    return tensor.resolve_conj().resolve_neg().numpy()


def _jax(given: Any, name: str) -> Found:
    core = sys.modules.get("jax.core")
    if core is not None and isinstance(given, core.Tracer):
        way = "call gathernest outside jax.jit, vmap and grad, or inside by jax.pure_callback"
        raise rejected(given, name, "which has no values while jax traces a function", way)
    devices: Any = getattr(given, "devices", set)
    for device in devices():
        if device.platform != "cpu":
            way = f'pass jax.device_put({name}, jax.devices("cpu")[0])'
            raise rejected(given, name, f"on the device {device}", way)
    array = read_by_protocol(given, name)
    is_on_cpu = type(given).__name__ == "ArrayImpl" and sys.modules["jax"].default_backend() == "cpu"
    return array, np.asarray if is_on_cpu else None


def _tensorflow(given: Any, name: str) -> Found:
    tf = sys.modules["tensorflow"]
    if isinstance(given, tf.RaggedTensor):
        way = f"pass {name}.to_tensor(), which pads them, or {name}.flat_values"
        raise rejected(given, name, "whose rows differ in length", way)
    if isinstance(given, tf.SparseTensor | tf.IndexedSlices):
        raise rejected(
            given, name, "which is sparse", f"pass tf.sparse.to_dense({name}) or tf.convert_to_tensor({name})"
        )
    if isinstance(given, tf.Variable):
        given = given.value()  # the same memory; its __array__ copies
    if not isinstance(given, tf.Tensor):
        raise rejected(given, name, "which is no tensor", f"pass its values, such as numpy.stack(list({name}))")
    if not hasattr(given, "numpy"):
        way = "call gathernest outside tf.function, or inside it by tf.numpy_function"
        raise rejected(given, name, "which has no values while TensorFlow traces a function", way)
    if not given.device.endswith(("CPU:0", "")) and "CPU" not in given.device:
        raise rejected(given, name, f"on the device {given.device}", f'pass tf.identity({name}) under tf.device("CPU")')
    is_on_cpu = type(given).__name__ == "EagerTensor" and not tf.config.list_physical_devices("GPU")
    return read_by_protocol(given, name), np.asarray if is_on_cpu else None


def _pandas(given: Any, name: str) -> Found:
    pandas = sys.modules["pandas"]
    if isinstance(given, pandas.DataFrame):
        kinds = list(dict.fromkeys(map(str, given.dtypes)))
        if len(kinds) > 1:
            way = f"pass one column, or {name}[columns].to_numpy(dtype)"
            raise rejected(given, name, f"whose columns differ in dtype ({', '.join(kinds)})", way)
        columns = [given.iloc[:, place] for place in range(given.shape[1])]
    else:
        columns = [given]
    for column in columns:
        if not isinstance(getattr(column, "dtype", None), np.dtype | None) and column.isna().any():
            way = f"pass {name}.fillna(value), or {name}.to_numpy(dtype, na_value=value)"
            raise rejected(given, name, "with nulls, which an array of values cannot have", way)
    return read_by_protocol(given, name), None


def _polars(given: Any, name: str) -> Found:
    polars = sys.modules["polars"]
    if isinstance(given, polars.LazyFrame):
        raise rejected(given, name, "which has no values yet", f"pass {name}.collect()")
    if not isinstance(given, polars.Series | polars.DataFrame):
        raise rejected(given, name, "which has no values", "pass a column or a frame")
    count = given.null_count()
    if (count if isinstance(count, int) else sum(count.row(0))) > 0:
        way = f"pass {name}.fill_null(value), or {name}.drop_nulls()"
        raise rejected(given, name, "with nulls, which an array of values cannot have", way)
    if isinstance(given, polars.DataFrame) and len(set(given.dtypes)) > 1:
        kinds = ", ".join(dict.fromkeys(map(str, given.dtypes)))
        way = f"pass one column, or {name}.select(columns).to_numpy()"
        raise rejected(given, name, f"whose columns differ in dtype ({kinds})", way)
    return given.to_numpy(), None


def _pyarrow(given: Any, name: str) -> Found:
    if hasattr(given, "column_names"):
        way = f"pass one column, {name}[{(given.column_names or ['name'])[0]!r}]"
        raise rejected(given, name, "whose columns are arrays of their own", way)
    if getattr(given, "null_count", 0):
        way = f"pass {name}.fill_null(value), or {name}.drop_null()"
        raise rejected(given, name, "with nulls, which an array of values cannot have", way)
    if getattr(given, "num_chunks", 0) == 1:
        given = given.chunk(0)
    return read_by_protocol(given, name), None


def _xarray(given: Any, name: str) -> Found:
    if hasattr(given, "data_vars"):
        example = next(iter(given.data_vars), "name")
        raise rejected(given, name, "of several arrays", f"pass one of them, {name}[{example!r}]")
    return given.data, None


def _scipy(given: Any, name: str) -> Found:
    if not hasattr(given, "toarray") and not hasattr(given, "todense"):
        return read_by_protocol(given, name), None
    densify = "toarray" if hasattr(given, "toarray") else "todense"
    rows = ", or take rows by data[indices]" if name == "data" else ""
    raise rejected(given, name, "which is sparse", f"pass {name}.{densify}(){rows}")


def _awkward(given: Any, name: str) -> Found:
    way = (
        f"pass awkward.to_numpy(awkward.pad_none({name}, length, clip=True)) with its nulls filled, or awkward.flatten"
    )
    try:
        return sys.modules["awkward"].to_numpy(given, allow_missing=False), None
    except ValueError:
        raise rejected(given, name, "whose rows differ in length or are null", way) from None


def _dask(given: Any, name: str) -> Found:
    way = f"pass {name}.compute()"
    if type(given).__name__.startswith("Delayed"):  # has every attribute
        way = f"pass dask.array.from_delayed({name}, shape, dtype), whose gathers stay lazy"
    elif hasattr(given, "to_dask_array"):
        way = f"pass {name}.to_dask_array(lengths=True), whose gathers stay lazy"
    elif not hasattr(given, "__dask_graph__"):
        return read_by_protocol(given, name), None
    raise rejected(given, name, "which is no array yet", way)


def _stored(given: Any, name: str) -> Found:
    if not hasattr(given, "dtype") or given.shape is None:
        raise rejected(given, name, "which is no array", "pass one of its arrays")
    return given[...], None


LIBRARIES: dict[str, Callable[[Any, str], Found]] = {
    "torch": _torch,
    "jax": _jax,
    "jaxlib": _jax,
    "tensorflow": _tensorflow,
    "pandas": _pandas,
    "polars": _polars,
    "pyarrow": _pyarrow,
    "xarray": _xarray,
    "scipy": _scipy,
    "sparse": _scipy,
    "awkward": _awkward,
    "dask": _dask,
    "h5py": _stored,
    "zarr": _stored,
}
# Libraries whose arrays cannot be written in place, with what works.
UNWRITTEN = {
    "dask": "it has no memory; leave out away, which gives a dask array, or pass a zarr.Array or an h5py.Dataset",
    "jax": "jax's arrays never change; leave out away, and pass the result to jax.numpy.asarray",
    "jaxlib": "jax's arrays never change; leave out away, and pass the result to jax.numpy.asarray",
    "tensorflow": "TensorFlow's tensors never change; leave out away, and pass the result to tf.convert_to_tensor",
    "pandas": "its values are read-only; leave out away, and assign the result",
    "polars": "its values are read-only; leave out away, and make a new one of the result",
    "pyarrow": "its values are read-only; leave out away, and pass the result to pyarrow.array",
    "h5py": "it lies in a file; leave out away, and write the result with out[...] = result",
    "zarr": "it lies in a store; leave out away, and write the result with out[...] = result",
}
