"""A stage as a file that runs again: MLIR text under a comment with the options of `gathernest exec`."""

import json
import re
import shlex
from pathlib import Path

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.element_types import element_type_name
from ...ir.errors import GathernestError, InvalidGatherError
from ...ir.problem import Problem
from ..tuning.sample_arrays import strided_array

HEADER = "// gathernest exec:"
FORMS = "sizes and element type (5x4xf32), values ([[1,2],[3,4]]xi64), or a file.npy"


def header_options(text: str) -> list[str]:
    """Return the words of the comments `// gathernest exec: ...` in a file.

    Raises:
        InvalidGatherError: a quotation mark has no other.
    """
    lines = re.findall(rf"^{re.escape(HEADER)}(.*)$", text, flags=re.MULTILINE)
    try:
        return shlex.split(" ".join(lines))
    except ValueError as error:
        raise InvalidGatherError(f"the comment {HEADER!r} does not parse: {error}") from None


def header(
    problem: Problem,
    data: np.ndarray | ArraySpec,
    indices: np.ndarray | ArraySpec,
    pipeline: str | None = None,
    engine: str | None = None,
) -> str:
    """Return the comment that makes `gathernest exec` run a stage of a problem on these arrays."""
    options = {"--operator": problem.name, "--data": array_text(data), "--indices": array_text(indices)}
    options |= {f"--{name.replace('_', '-')}": str(value) for name, value in problem.operator.attributes().items()}
    options["--bounds"] = str(problem.bounds)
    if problem.gradient is not None:
        options |= {"--scale": repr(problem.gradient.scale), "--data-shape": "x".join(map(str, problem.table.shape))}
    options |= {} if pipeline is None else {"-p": pipeline}
    options |= {} if engine is None else {"--engine": engine}
    return f"{HEADER} {' '.join(f'{name} {shlex.quote(value)}' for name, value in options.items())}\n"


def read_array(text: str) -> np.ndarray | ArraySpec:
    """Return the array that a text gives, or the spec of one to fill.

    Raises:
        InvalidGatherError: the text is none of the three forms, or the file cannot be read.
    """
    try:
        if text.endswith(".npy"):
            return np.load(Path(text), allow_pickle=False)
        if text.startswith("["):
            values, _, kind = text.rpartition("]")
            return np.asarray(json.loads(f"{values}]"), ArraySpec.parse(f"1{kind}").dtype if kind else None)
        return ArraySpec.parse(text)
    except (GathernestError, ValueError, OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidGatherError(f"{text}: {reason}; give {FORMS}") from None


def array_text(array: np.ndarray | ArraySpec) -> str:
    """Return a text that `read_array` reads as this array; of one that JSON cannot hold, as its spec."""
    if isinstance(array, ArraySpec) or array.dtype.kind not in "iuf" or not array.size or array.dtype.itemsize > 8:
        return str(ArraySpec.of(array))
    return f"{json.dumps(array.tolist(), separators=(',', ':'))}x{element_type_name(array.dtype)}"


def filled(array: np.ndarray | ArraySpec, rng: np.random.Generator, sizes: tuple[int, ...] | None = None) -> np.ndarray:
    """Return an array, or one of a spec filled at random: data with small numbers, indices with those of `sizes`.

    Args:
        sizes: of indices, the sizes of the indexed axes; valid indices count from both ends.
    """
    if not isinstance(array, ArraySpec):
        return array
    result = strided_array(array)
    if sizes is None:
        result[...] = rng.integers(0, 100, array.shape).astype(array.dtype)
        return result
    kind = np.iinfo(array.dtype)
    low = [max(-size, int(kind.min)) for size in sizes]
    high = [max(min(size, int(kind.max) + 1), least + 1) for size, least in zip(sizes, low, strict=True)]
    limits = (low, high) if len(sizes) > 1 else (low[0], high[0])
    result[...] = rng.integers(*limits, array.shape).astype(array.dtype)
    return result
