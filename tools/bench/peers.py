"""The runtimes that run the cases: gathernest, and its peers, each a class that prepares calls.

A peer prepares the cases that `REJECTIONS` leaves to it for its runtime's fastest path: sessions are made beforehand,
inputs are not copied in a call, and the result is given where the runtime takes one. A runtime is imported by
`Peer.__init__`, and nowhere else.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.errors import ScheduleError
from ...kernels.gather import gather
from ...kernels.host.knobs import knobs
from ...kernels.kernel import Kernel
from ...kernels.kernel import compile as compile_gather
from ...lowering.schedule.schedule import NO_SCHEDULE, Schedule, shorter_schedules
from ...lowering.schedule.steps import GatherLanes, StreamStores
from .cases import Case, Inputs

Call = Callable[[], Any]
# Ways to run a case, by the called function: one call for each set of indices.
Variants = Mapping[str, Sequence[Call]]

# The peer without-all has the nest as it stands.
ALL = "all"
# NumPy loops over at most this many batches in Python.
MAX_PYTHON_BATCHES = 64
ONNX_OPSET, ONNX_CPU = 13, ("cpu", 0)
# Dtypes whose bytes OpenVINO's CPU plugin keeps: it computes in float32 and int32.
OPENVINO_DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "float16", "float32", "bool")


def _has_other_indices(case: Case) -> bool:
    return case.index_dtype not in ("int32", "int64")


_INDICES = _has_other_indices, "has no {case.index_dtype} indices"
# The cases that a peer cannot run: a condition and the reason, of which the first that holds counts.
REJECTIONS: Mapping[str, Sequence[tuple[Callable[[Case], bool], str]]] = {
    "torch": (_INDICES,),
    "onnxruntime": (
        (lambda case: case.is_gradient, "has no gradients"),
        (lambda case: case.is_reduction, "has no operator for bags"),
        (lambda case: np.dtype(case.dtype).kind == "c", "has no {case.dtype}"),
        _INDICES,
        (
            lambda case: case.operator == "gather" and case.batch_dims > 0 and case.axis != case.batch_dims,
            "has no batch_dims for an axis after them",
        ),
        (
            lambda case: _onnx_type(case) == "GatherND" and case.index_dtype != "int64",
            "has no {case.index_dtype} indices for GatherND",
        ),
    ),
    "openvino": (
        (lambda case: case.is_gradient, "has no gradients"),
        (lambda case: case.operator == "gather_max", "has no maxima of bags"),
        (lambda case: case.dtype not in OPENVINO_DTYPES, "computes in float32 and int32, not in {case.dtype}"),
        _INDICES,
    ),
    "tensorflow": (
        (lambda case: case.operator in ("gather_elements", "gather_max"), "has no operator for it"),
        _INDICES,
    ),
}


class Peer:
    """A runtime that gathers.

    Attributes:
        name: as on the command line, and as its package is imported.
        is_allocating: whether it makes every result, because it can write into none that is given.
        threads: the number of threads that it uses.
        version: empty for its package's version.
    """

    name: str
    version: str = ""
    is_allocating: ClassVar[bool] = False
    threads: int = 1

    def start(self, threads: int) -> None:
        """Set the number of threads; called once, before all cases."""
        self.threads = threads

    def rejection(self, case: Case) -> str | None:
        """Return why it cannot run a case, or None where it can."""
        reasons = (text.format(case=case) for holds, text in REJECTIONS.get(self.name, ()) if holds(case))
        return next(reasons, None)

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        """Return the ways to run a case that it can run, into the result that `case.into` names.

        The arrays live at least as long as the calls. Each call of a case into "new" returns a result of its own.
        """
        model, data = self.model(case), self.array(inputs.data)
        out = self.array(inputs.out) if case.into == "out" else None
        sets = [self.calls(case, model, data, self.array(picks), out) for picks in inputs.indices]
        return {name: [calls[name] for calls in sets] for name in sets[0]}

    def model(self, case: Case) -> Any:
        """Return the state that all sets of indices share, such as a session."""

    def array(self, array: np.ndarray) -> Any:
        """Return an array as the runtime takes it; data and a given result share its memory."""
        return array

    def calls(self, case: Case, model: Any, data: Any, picks: Any, out: Any) -> dict[str, Call]:
        """Return the ways to run a case with one set of indices, into `out` or, where it is None, a new result."""
        raise NotImplementedError

    def result(self, returned: Any, out: np.ndarray) -> np.ndarray:
        """Return the result of a call as an array: its return value, or `out` for None."""
        return out if returned is None else np.asarray(returned)


def _cut(case: Case) -> tuple[slice, ...]:
    """Return the part of the table that a gather of elements reads."""
    return tuple(slice(size) if dim != case.axis else slice(None) for dim, size in enumerate(case.indices))


def _batch_grids(case: Case) -> list[np.ndarray]:
    """Return the numbers of the batches, to index with."""
    shape = case.indices[:-1] if case.operator == "gather_nd" else case.indices
    return list(np.indices(shape, sparse=True)[: case.batch_dims])


# ---- gathernest ----


class Gathernest(Peer):
    """The compiled kernel, or the function in cases that measure the call; the number of threads is a knob."""

    name = "gathernest"

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        if case.family == "call" and case.into == "new":
            return {"gather": [partial(gather, inputs.data, picks, case.axis) for picks in inputs.indices]}
        return {"kernel": kernel_calls(compile_case(case, inputs.indices[0]), case, inputs)}


class OneThread(Gathernest):
    """The kernel on one thread: the ratio to it is the gain of the others."""

    name, version = "one-thread", "of this gathernest"

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        def alone(call: Call) -> Any:
            with knobs.scope(num_threads=1):
                return call()

        return {way: [partial(alone, call) for call in calls] for way, calls in super().variants(case, inputs).items()}


class WithSchedule(Gathernest):
    """The kernel with another schedule, whose text is the name."""

    version = "of this gathernest"

    def __init__(self, schedule: Schedule) -> None:
        self.name, self.schedule = str(schedule), schedule

    def schedule_of(self, case: Case) -> Schedule:
        """Return the schedule for a case; raises ScheduleError where there is none."""
        return self.schedule

    def rejection(self, case: Case) -> str | None:
        try:
            compile_case(case, _indices_of(case), self.schedule_of(case))
        except ScheduleError as error:
            return str(error)
        return None

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        return {"kernel": kernel_calls(compile_case(case, inputs.indices[0], self.schedule_of(case)), case, inputs)}


class WithoutPass(WithSchedule):
    """The kernel without a pass of its schedule, or without all of them: the ratio to it is the worth of the pass."""

    def __init__(self, left_out: str) -> None:
        self.name, self.left_out = f"without-{left_out}", left_out

    def rejection(self, case: Case) -> str | None:
        if case.is_gradient or case.family == "call":
            return "has a schedule of another kind"
        return super().rejection(case)

    def schedule_of(self, case: Case) -> Schedule:
        if self.left_out == ALL:
            return NO_SCHEDULE
        whole = compile_case(case, _indices_of(case)).schedule
        shorter = {name.partition("{")[0]: rest for name, rest in shorter_schedules(whole).items()}
        if self.left_out not in shorter:
            raise ScheduleError("the schedule has no such pass")
        rest = shorter[self.left_out]  # only vectors are gathered and streamed
        return rest.without(GatherLanes, StreamStores) if self.left_out == "vectorize-inner" else rest


def _indices_of(case: Case) -> ArraySpec:
    return ArraySpec(case.indices, np.dtype(case.index_dtype))


def kernel_calls(kernel: Kernel, case: Case, inputs: Inputs) -> list[Call]:
    """Return a call of a kernel for each set of indices, into the result that `case.into` names."""
    given = (inputs.out,) if case.into == "out" else ()
    return [partial(kernel, inputs.data, picks, *given) for picks in inputs.indices]


def compile_case(case: Case, indices: np.ndarray | ArraySpec, schedule: Schedule | None = None) -> Kernel:
    """Return the kernel of a case and a set of its indices, with the default schedule when none is given."""
    data = ArraySpec(case.data, np.dtype(case.dtype))
    return compile_gather(case.operator, data, indices, axis=case.axis, batch_dims=case.batch_dims, schedule=schedule)


# ---- NumPy ----


class NumPy(Peer):
    """NumPy on one thread: `take` in the mode that does not buffer, or indexing, whichever is faster."""

    name = "numpy"

    def calls(self, case: Case, model: Any, data: np.ndarray, picks: np.ndarray, out: Any) -> dict[str, Call]:
        if case.is_gradient:
            return {"add.at": partial(_numpy_add_at, case, data, picks, out)}
        if case.is_reduction:
            ufunc = np.maximum if case.operator == "gather_max" else np.add
            return {"take, reduce": lambda: ufunc.reduce(data.take(picks, 0, None, "clip"), -2, case.dtype, out)}
        if case.operator == "gather_elements":
            return {"take_along_axis": partial(np.take_along_axis, data[_cut(case)], picks, case.axis)}
        grids = _batch_grids(case)
        if case.operator == "gather_nd":
            components, rank = tuple(np.moveaxis(picks, -1, 0)), picks.shape[-1]
            calls: dict[str, Call] = {"index": partial(data.__getitem__, (*grids, *components))}
            if not case.batch_dims:
                table, sizes = data.reshape(-1, *case.data[rank:]), case.data[:rank]
                calls["ravel_multi_index, take"] = lambda: table.take(
                    np.ravel_multi_index(components, sizes), 0, out, "clip"
                )
            return calls
        if case.family == "call" and case.into == "new":
            return {"take": partial(np.take, data, picks, case.axis)}
        index: dict[str, Call] = {}
        if case.axis == len(grids):
            index["index"] = partial(data.__getitem__, (*grids, picks))
        if not grids:
            return {"ndarray.take": partial(data.take, picks, case.axis, out, "clip")} | index
        if index and math.prod(case.data[: case.batch_dims]) > MAX_PYTHON_BATCHES:
            return index
        return index | {"ndarray.take in a loop": _numpy_take_in_loop(case, data, picks, out)}


def expected(case: Case, inputs: Inputs, number: int) -> np.ndarray:
    """Return the expected result for the set of indices of that number, as NumPy gives it in a new array."""
    new = replace(case, into="new")
    return np.asarray(next(iter(NumPy().calls(new, None, inputs.data, inputs.indices[number], None).values()))())


def _numpy_add_at(case: Case, grad: np.ndarray, picks: np.ndarray, out: Any) -> np.ndarray:
    sums = np.zeros(case.data, case.dtype) if out is None else out
    if out is not None:
        out.fill(0)
    place: Any = (*[slice(None)] * case.axis, picks)
    np.add.at(sums, place, grad)
    return sums


def _numpy_take_in_loop(case: Case, data: np.ndarray, picks: np.ndarray, given: Any) -> Call:
    axis, batches = case.axis - case.batch_dims, np.ndindex(*case.data[: case.batch_dims])
    takes = [(place, partial(data[place].take, picks[place], axis)) for place in batches]

    def call() -> np.ndarray:
        out = np.empty(case.gathered, case.dtype) if given is None else given
        for place, take in takes:
            take(out[place], "clip")
        return out

    return call


# ---- PyTorch ----


class Torch(Peer):
    """PyTorch without its autograd, on tensors that share the arrays' memory; `embedding_bag` makes every result."""

    name = "torch"

    def __init__(self) -> None:
        import torch  # pyright: ignore[reportMissingImports]

        self.torch: Any = torch

    def start(self, threads: int) -> None:
        self.torch.set_num_threads(threads)
        self.torch.set_grad_enabled(False)

    def array(self, array: np.ndarray) -> Any:
        return self.torch.from_numpy(array)

    def result(self, returned: Any, out: np.ndarray) -> np.ndarray:
        is_given = returned is None or returned.data_ptr() == out.ctypes.data  # perhaps in another shape
        return out if is_given else np.asarray(returned)

    def calls(self, case: Case, model: Any, data: Any, picks: Any, out: Any) -> dict[str, Call]:
        torch = self.torch
        if case.is_gradient:
            return self._gradient_calls(case, data, picks, out)
        if case.is_reduction:
            mode = "max" if case.operator == "gather_max" else "sum"
            return {"embedding_bag": partial(torch.nn.functional.embedding_bag, picks, data, mode=mode)}
        if case.operator == "gather_elements":
            return {"gather": partial(torch.gather, data, case.axis, picks, out=out)}
        grids = [torch.from_numpy(grid) for grid in _batch_grids(case)]
        if case.operator == "gather_nd":
            return {"index": self._index(data, [*grids, *picks.unbind(-1)], out)}
        if case.family == "call" and out is None:
            return {"index_select": partial(torch.index_select, data, case.axis, picks)}
        calls: dict[str, Call]
        if case.batch_dims:  # `gather` with the indices expanded over rows and outer dimensions
            batches, axis = math.prod(case.data[: case.batch_dims]), case.data[case.axis]
            outer, inner = math.prod(case.data[case.batch_dims : case.axis]), math.prod(case.data[case.axis + 1 :])
            expanded = picks.reshape(batches, 1, -1, 1).expand(batches, outer, -1, inner)
            given = None if out is None else out.view(batches, outer, -1, inner)
            call = partial(torch.gather, data.view(batches, outer, axis, inner), 2, expanded, out=given)
            calls = {"gather": call if given is not None else lambda: call().view(case.gathered)}
        else:
            flat = None if out is None else out.view(*case.data[: case.axis], -1, *case.data[case.axis + 1 :])
            select = partial(torch.index_select, data, case.axis, picks.reshape(-1), out=flat)
            is_shaped = flat is not None or picks.dim() == 1
            calls = {"index_select": select if is_shaped else lambda: select().view(case.gathered)}
            if data.dim() == 1 and picks.dtype == torch.int64:
                calls["take"] = partial(torch.take, data, picks, out=out)
        if case.axis == case.batch_dims:
            calls["index"] = self._index(data, [*grids, picks], out)
        return calls

    def _gradient_calls(self, case: Case, grad: Any, picks: Any, out: Any) -> dict[str, Call]:
        torch = self.torch

        def index_add() -> Any:
            sums = torch.zeros(case.data, dtype=grad.dtype) if out is None else out.zero_()
            return sums.index_add_(case.axis, picks, grad)

        calls: dict[str, Call] = {"index_add_": index_add}
        if case.axis == 0 and len(case.data) == 2:
            backward = torch.ops.aten.embedding_dense_backward
            calls["embedding_dense_backward"] = partial(backward, grad, picks, case.data[0], -1, False)
        return calls

    def _index(self, data: Any, components: list[Any], out: Any) -> Call:
        index = self.torch.ops.aten.index
        if out is None:
            return partial(index.Tensor, data, components)
        return partial(index.Tensor_out, data, components, out=out)


# ---- ONNX Runtime ----


class OnnxRuntime(Peer):
    """A session with a model of one node for each case, bound to the arrays' memory."""

    name = "onnxruntime"

    def __init__(self) -> None:
        import onnx.helper
        import onnxruntime  # pyright: ignore[reportMissingImports]

        self.runtime: Any = onnxruntime
        self.helper: Any = onnx.helper

    def model(self, case: Case) -> Any:
        options = self.runtime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        text = self._node(case).SerializeToString()
        return self.runtime.InferenceSession(text, options, providers=["CPUExecutionProvider"])

    def result(self, returned: Any, out: np.ndarray) -> np.ndarray:
        return returned.numpy() if isinstance(returned, self.runtime.OrtValue) else super().result(returned, out)

    def calls(self, case: Case, model: Any, data: np.ndarray, picks: np.ndarray, out: Any) -> dict[str, Call]:
        """Return calls into `out`; or calls whose result stays where the runtime put it, and calls that copy it."""
        name, session = _onnx_type(case), model
        given = {"data": data, "indices": picks[..., None] if _is_batched(case) else picks}
        if out is None:
            values = {key: self.runtime.OrtValue.ortvalue_from_numpy(array) for key, array in given.items()}
            return {
                name: lambda: session.run(None, given)[0],
                f"{name}, OrtValue": lambda: session.run_with_ort_values(["out"], values)[0],
            }
        binding = session.io_binding()
        for key, array in given.items():
            binding.bind_input(key, *ONNX_CPU, array.dtype, array.shape, array.ctypes.data)
        binding.bind_output("out", *ONNX_CPU, out.dtype, out.shape, out.ctypes.data)
        return {name: partial(session.run_with_iobinding, binding)}

    def _node(self, case: Case) -> Any:
        """Return a model of one node, with static shapes."""
        helper, kind = self.helper, _onnx_type(case)
        indices = (*case.indices, 1) if _is_batched(case) else case.indices
        tensors = {
            "data": (case.dtype, case.data),
            "indices": (case.index_dtype, indices),
            "out": (case.dtype, case.gathered),
        }
        data, picks, out = (
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
            for name, (dtype, shape) in tensors.items()
        )
        attributes = {"batch_dims": case.batch_dims} if kind == "GatherND" else {"axis": case.axis}
        node = helper.make_node(kind, ["data", "indices"], ["out"], **attributes)
        graph = helper.make_graph([node], case.name, [data, picks], [out])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", ONNX_OPSET)], ir_version=9)


def _is_batched(case: Case) -> bool:
    """Return whether a gather along an axis is written as GatherND, as ONNX's Gather has no batch_dims."""
    return case.operator == "gather" and case.batch_dims > 0


def _onnx_type(case: Case) -> str:
    if case.operator == "gather_nd" or _is_batched(case):
        return "GatherND"
    return "GatherElements" if case.operator == "gather_elements" else "Gather"


# ---- OpenVINO ----


class OpenVino(Peer):
    """A compiled model of one node for each case, and an infer request for each set of indices."""

    name = "openvino"

    def __init__(self) -> None:
        import openvino  # pyright: ignore[reportMissingImports]
        from openvino import opset8  # pyright: ignore[reportMissingImports]

        self.runtime: Any = openvino
        self.operators: Any = opset8

    def model(self, case: Case) -> Any:
        settings = {"INFERENCE_NUM_THREADS": self.threads, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}
        model = self._node(case)
        name = model.get_results()[0].input_value(0).get_node().get_type_name()
        return name, self.runtime.Core().compile_model(model, "CPU", settings)

    def calls(self, case: Case, model: Any, data: np.ndarray, picks: np.ndarray, out: Any) -> dict[str, Call]:
        name, compiled = model

        def request() -> Any:
            made = compiled.create_infer_request()
            for number, array in enumerate((data, picks)):
                made.set_input_tensor(number, self.runtime.Tensor(array, shared_memory=True))
            return made

        if out is not None:
            return {name: partial(self._infer_into, request(), out)}
        empty, copied = partial(np.empty, case.gathered, case.dtype), request()
        return {name: partial(self._infer_into, request(), empty), f"{name}, copied": lambda: copied.infer()[0]}

    def _infer_into(self, request: Any, out: Any) -> np.ndarray:
        """Run a request into the array `out`, or into a new array that `out` makes; `share_outputs` saves a copy."""
        array = out if isinstance(out, np.ndarray) else out()
        request.set_output_tensor(0, self.runtime.Tensor(array, shared_memory=True))
        request.infer(share_outputs=True)
        return array

    def _node(self, case: Case) -> Any:
        """Return a model of one node, with static shapes."""
        operators = self.operators
        data = operators.parameter(list(case.data), np.dtype(case.dtype), name="data")
        indices = operators.parameter(list(case.indices), np.dtype(case.index_dtype), name="indices")
        if case.operator == "gather_nd":
            node = operators.gather_nd(data, indices, case.batch_dims)
        elif case.operator == "gather_elements":
            node = operators.gather_elements(data, indices, case.axis)
        elif case.is_reduction:
            node = operators.embedding_bag_packed_sum(data, indices)
        else:
            node = operators.gather(data, indices, operators.constant(np.int64(case.axis)), case.batch_dims)
        return self.runtime.Model([node], [data, indices], case.name)


# ---- TensorFlow ----


class TensorFlow(Peer):
    """Eager TensorFlow on the CPU: its raw operators on tensors made beforehand."""

    name = "tensorflow"
    is_allocating = True

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow  # pyright: ignore[reportMissingImports, reportMissingModuleSource]

        self.runtime: Any = tensorflow

    def start(self, threads: int) -> None:
        settings = self.runtime.config.threading
        if settings.get_intra_op_parallelism_threads() != threads:
            settings.set_intra_op_parallelism_threads(threads)
            settings.set_inter_op_parallelism_threads(1)

    def array(self, array: np.ndarray) -> Any:
        with self.runtime.device("CPU:0"):
            return self.runtime.convert_to_tensor(array)

    def calls(self, case: Case, model: Any, data: Any, picks: Any, out: Any) -> dict[str, Call]:
        tensorflow, raw = self.runtime, self.runtime.raw_ops
        if case.is_gradient:
            shape, places = tensorflow.constant(case.data, picks.dtype), picks[:, None]
            calls: dict[str, Call] = {"ScatterNd": partial(raw.ScatterNd, indices=places, updates=data, shape=shape)}
            if case.axis == 0:
                rows = tensorflow.constant(case.data[0])
                segments = partial(raw.UnsortedSegmentSum, data=data, segment_ids=picks, num_segments=rows)
                calls["UnsortedSegmentSum"] = segments
            return calls
        if case.is_reduction:
            bags = tensorflow.repeat(tensorflow.range(case.indices[0]), case.indices[1])
            flat = tensorflow.reshape(picks, [-1])
            return {"SparseSegmentSum": partial(raw.SparseSegmentSum, data=data, indices=flat, segment_ids=bags)}
        if case.operator == "gather_nd" and case.batch_dims:
            return {"gather_nd": partial(tensorflow.gather_nd, data, picks, case.batch_dims)}
        if case.operator == "gather_nd":
            return {"GatherNd": partial(raw.GatherNd, params=data, indices=picks)}
        axis = tensorflow.constant(case.axis)
        return {"GatherV2": partial(raw.GatherV2, params=data, indices=picks, axis=axis, batch_dims=case.batch_dims)}


# ---- JAX ----


class Jax(Peer):
    """Compiled functions of arrays on JAX's CPU device, with 64-bit dtypes as the cases have them."""

    name = "jax"
    is_allocating = True

    def __init__(self) -> None:
        import jax  # pyright: ignore[reportMissingImports]

        self.runtime: Any = jax

    def start(self, threads: int) -> None:
        os.environ["PJRT_NPROC"] = str(threads)  # read when JAX first makes its client
        self.runtime.config.update("jax_platforms", "cpu")
        self.runtime.config.update("jax_enable_x64", True)

    def array(self, array: np.ndarray) -> Any:
        return self.runtime.numpy.asarray(array)

    def calls(self, case: Case, model: Any, data: Any, picks: Any, out: Any) -> dict[str, Call]:
        return {"jit": lambda: model(data, picks).block_until_ready()}

    def model(self, case: Case) -> Any:
        return self.runtime.jit(self._function(case))

    def _function(self, case: Case) -> Callable[[Any, Any], Any]:
        """Return the case as JAX writes it; indices outside are clamped, which costs less than its default."""
        jnp = self.runtime.numpy
        if case.is_gradient:
            place = (slice(None),) * case.axis
            return lambda grad, picks: jnp.zeros(case.data, grad.dtype).at[(*place, picks)].add(grad, mode="clip")
        if case.is_reduction:
            reduction = jnp.max if case.operator == "gather_max" else jnp.sum
            return lambda data, picks: reduction(jnp.take(data, picks, axis=0, mode="clip"), axis=-2)
        if case.operator == "gather_elements":
            return lambda data, picks: jnp.take_along_axis(data[_cut(case)], picks, case.axis, mode="clip")
        if case.operator == "gather_nd":
            grids = _batch_grids(case)
            return lambda data, picks: data.at[(*grids, *jnp.moveaxis(picks, -1, 0))].get(mode="clip")
        function: Callable[..., Any] = partial(jnp.take, axis=case.axis - case.batch_dims, mode="clip")
        for _ in range(case.batch_dims):
            function = self.runtime.vmap(function)
        return function


# The libraries, in the order of the table.
PEERS: Mapping[str, type[Peer]] = {peer.name: peer for peer in (NumPy, Torch, OnnxRuntime, OpenVino, TensorFlow, Jax)}
