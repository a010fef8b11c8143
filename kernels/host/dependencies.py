"""The packages that compiled kernels need, checked before they are imported."""

import functools
import re

from ...ir.errors import DependencyError

LEAST_VERSIONS = {"numba": (0, 63), "llvmlite": (0, 46), "xdsl": (0, 74)}
# The packages that models, proofs and the report need.
READERS = {"onnx": (1, 19), "openvino": (2024, 6)}
PROVERS = {"islpy": (2025, 1), "z3-solver": (4, 13)}
REPORTERS = {"jinja2": (3, 1), "pygments": (2, 18)}

# The extra that installs each package; gathernest itself requires the others.
EXTRAS = {
    "onnx": "onnx",
    "openvino": "openvino",
    **dict.fromkeys(PROVERS, "prove"),
    **dict.fromkeys(REPORTERS, "report"),
}


def problem_with(package: str) -> str | None:
    """Return the fault of the installed version of a package, or None."""
    from importlib.metadata import PackageNotFoundError, version

    least = (LEAST_VERSIONS | READERS | PROVERS | REPORTERS)[package]
    wanted = ".".join(map(str, least))
    fix = f"pip install 'gathernest[{EXTRAS[package]}]'" if package in EXTRAS else f"pip install '{package}>={wanted}'"
    try:
        found = version(package)
    except PackageNotFoundError:
        return f"{package} is not installed; gathernest needs {package} {wanted}: {fix}"
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
    if numbers < least:
        return f"{package} {found} is too old; gathernest needs {wanted} or newer: {fix}"
    return None


@functools.cache
def require(*packages: str) -> None:
    """Check that packages are there and new enough; raises DependencyError."""
    for package in packages:
        if (problem := problem_with(package)) is not None:
            raise DependencyError(problem)


def require_compiler() -> None:
    """Check that xDSL and Numba are there and new enough, and that Numba compiles; raises DependencyError."""
    require("xdsl", "numba", "llvmlite")
    import numba

    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        raise DependencyError(
            "NUMBA_DISABLE_JIT is set, and kernels are compiled by Numba; unset it, or set GATHERNEST_INTERPRET=1 to "
            "run the reference interpreter"
        )
