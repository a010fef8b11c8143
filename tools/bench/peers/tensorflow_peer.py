"""TensorFlow, eagerly: its raw operators on tensors made beforehand; it allocates every result."""

import contextlib
import os
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from ..cases.case import Case, Inputs
from .peer import Call, Peer, Variants


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Silence standard error, where TensorFlow prints on import."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with _silent():
    import tensorflow  # pyright: ignore[reportMissingImports, reportMissingModuleSource]


class TensorFlow(Peer):
    """Eager TensorFlow on the CPU."""

    name = "tensorflow"
    index_dtypes = ("int32", "int64")
    is_allocating = True

    def start(self, threads: int) -> None:
        settings = tensorflow.config.threading
        if settings.get_intra_op_parallelism_threads() == threads:
            return
        with _silent():
            settings.set_intra_op_parallelism_threads(threads)
            settings.set_inter_op_parallelism_threads(1)

    def rejection(self, case: Case) -> str | None:
        is_absent = case.operator in ("gather_elements", "gather_max")
        return "has no operator for it" if is_absent else super().rejection(case)

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        with _silent(), tensorflow.device("CPU:0"):
            data = tensorflow.convert_to_tensor(inputs.data)
            sets = [_calls(case, data, tensorflow.convert_to_tensor(picks)) for picks in inputs.indices]
        return {name: [calls[name] for calls in sets] for name in sets[0]}


def _calls(case: Case, data: Any, picks: Any) -> dict[str, Call]:
    raw = tensorflow.raw_ops
    if case.is_gradient:
        shape = tensorflow.constant(case.data, picks.dtype)
        calls: dict[str, Call] = {"ScatterNd": lambda: raw.ScatterNd(indices=picks[:, None], updates=data, shape=shape)}
        if case.axis == 0:
            rows = tensorflow.constant(case.data[0])
            calls["UnsortedSegmentSum"] = partial(
                raw.UnsortedSegmentSum, data=data, segment_ids=picks, num_segments=rows
            )
        return calls
    if case.is_reduction:
        bags = tensorflow.repeat(tensorflow.range(case.indices[0]), case.indices[1])
        flat = tensorflow.reshape(picks, [-1])
        return {"SparseSegmentSum": partial(raw.SparseSegmentSum, data=data, indices=flat, segment_ids=bags)}
    if case.operator == "gather_nd":
        if case.batch_dims:
            return {"gather_nd": partial(tensorflow.gather_nd, data, picks, case.batch_dims)}
        return {"GatherNd": partial(raw.GatherNd, params=data, indices=picks)}
    axis = tensorflow.constant(case.axis)
    return {"GatherV2": partial(raw.GatherV2, params=data, indices=picks, axis=axis, batch_dims=case.batch_dims)}
