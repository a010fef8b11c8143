"""The comment in a stage's file that names its gather, as options of `gathernest exec`."""

import json
import re
import shlex

import numpy as np

from ..array_spec import ArraySpec
from ..element_types import element_type_name
from ..errors import InvalidGatherError
from ..problem import Problem

HEADER = "// gathernest exec:"


def header_lines(text: str, *, with_passes: bool = True) -> str:
    """Return the comments `// gathernest exec: ...` of a file; without the passes to run, where they have run."""
    lines = "".join(re.findall(rf"^{re.escape(HEADER)}.*\n", text, flags=re.MULTILINE))
    return lines if with_passes else re.sub(r" -p ('[^']*'|\S+)", "", lines)


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


def array_text(array: np.ndarray | ArraySpec) -> str:
    """Return a text that `read_array` reads as this array, or as its spec where JSON cannot hold the values."""
    if isinstance(array, ArraySpec) or array.dtype.kind not in "iuf" or not array.size or array.dtype.itemsize > 8:
        return str(ArraySpec.of(array))
    return f"{json.dumps(array.tolist(), separators=(',', ':'))}x{element_type_name(array.dtype)}"
