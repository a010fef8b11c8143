"""A program for a process of its own: what gathernest makes of cases, by its public functions.

It imports nothing of this package but what any revision has, so that the sources of another revision can be asked: the
first gathernest on `sys.path`.

Standard input: a JSON list of cases, each with `name`, `operator`, `data` and `indices` (shapes), `dtype`,
`index_dtype`, `axis`, `batch_dims` and `into`. Standard output: one JSON object a line: first `versions`, then for each
case `name` and `error`, or `name`, `stages` (name and digest of each, which the sizes are part of), and either
`same_as`, an earlier case with the same kernel, or `schedule`, `source`, `assembly` (with the lines of `file`, where
the revision can) and `file`.
"""

import hashlib
import importlib
import json
import platform
import re
import sys
from importlib.metadata import version
from typing import Any


def main() -> None:
    """Answer for every case."""
    cases, gn = json.load(sys.stdin), importlib.import_module("gathernest")
    packages = {name: version(name) for name in ("numba", "llvmlite", "xdsl")}
    _say({"versions": {**packages, "python": ".".join(platform.python_version_tuple()[:2])}})
    known: dict[str, str] = {}
    for case in cases:
        try:
            kernel = _kernel(gn, case)
            same_as = known.get(kernel.key)
            code = _code(kernel) if same_as is None else {"same_as": same_as}
            _say({"name": case["name"], "stages": _stages(kernel), **code})
            known.setdefault(kernel.key, case["name"])
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            _say({"name": case["name"], "error": f"{type(error).__name__}: {reason}"})


def _say(fact: dict[str, Any]) -> None:
    print(json.dumps(fact), flush=True)


def _kernel(gn: Any, case: dict[str, Any]) -> Any:
    """Return the kernel of a case; pages of its arrays are never touched."""
    import numpy as np

    data = np.empty(case["data"], case["dtype"])
    indices = np.empty(case["indices"], case["index_dtype"])
    kernel = gn.compile(case["operator"], data, indices, axis=case["axis"], batch_dims=case["batch_dims"])
    return _with_out(kernel) if case["into"] == "out" else kernel


def _with_out(kernel: Any) -> Any:
    """Return the kernel that calls with `out` run; for older revisions, which do not name it, made as they make it."""
    if hasattr(type(kernel), "with_out"):
        return kernel.with_out
    try:
        return type(kernel)(kernel.problem.into(kernel.problem.result), None)
    except (AttributeError, TypeError):  # older still: a result is made in one way
        return kernel


def _code(kernel: Any) -> dict[str, Any]:
    """Return the schedule, the source and the assembly; without lines of the source where a revision has none."""
    try:
        program = importlib.import_module("gathernest.kernels.runtime.compile").build_program(kernel.plan)
        compiler = importlib.import_module("gathernest.lowering.numba.compiler")
        assembly, file = compiler.inspected_library(program, with_lines=True).get_asm_str(), compiler.INSPECTED_FILE
        source = program.source
    except (ImportError, AttributeError, TypeError):
        source, assembly, file = kernel.source, kernel.asm(), None
    return {"schedule": str(kernel.schedule), "source": source, "assembly": assembly, "file": file}


def _stages(kernel: Any) -> list[tuple[str, str]]:
    """Return the passes with their options, and a digest of the module after each."""
    stages: dict[str, str] = kernel.stages
    steps = ["operator", *re.findall(r"[^,{}]+(?:\{[^}]*\})?", kernel.pipeline)]
    names = steps if len(steps) == len(stages) else list(stages)
    return [(name, digest(text)) for name, text in zip(names, stages.values(), strict=True)]


def digest(text: str) -> str:
    """Return what stands for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


if __name__ == "__main__":
    main()
