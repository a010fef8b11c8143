"""Apache Otava in an environment of its own, since it pins versions of NumPy and SciPy that clash with Numba's.

The environment is made once, below the cache folder. Otava reads series and answers with change points as JSON, over a
pipe.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ....ir.errors import GathernestError
from ....kernels.host.cache_folder import cache_folder
from .noise import Candidate

VERSION = "0.8.0"
# Installing takes half a minute, and minutes under load; a thousand series of a hundred commits take a few seconds.
INSTALL_LIMIT_S, LIMIT_S = 600, 300
_PROGRAM = """
import json, sys, warnings
from otava.series import AnalysisOptions, Metric, Series
warnings.simplefilter("ignore")  # of divisions by the deviation of numbers that are all equal
found = {}
for name, values in json.load(sys.stdin).items():
    series = Series(name, None, list(range(len(values))), {"value": Metric()}, {"value": values}, {})
    points = series.analyze(AnalysisOptions()).change_points["value"]
    found[name] = [[int(point.index), float(point.pvalue())] for point in points]
json.dump(found, sys.stdout)
"""


class OtavaError(GathernestError):
    """Otava cannot be installed or run; the thresholds alone decide."""


def python_folder() -> Path:
    """Return the folder of otava's environment, whether it is made or not."""
    return cache_folder() / f"otava-{VERSION}-python{sys.version_info.major}.{sys.version_info.minor}"


def is_installed() -> bool:
    """Return whether the environment is made."""
    return _python(python_folder()).exists()


def install() -> None:
    """Make otava's environment with pip; raises OtavaError."""
    target = python_folder()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{target.name}-", dir=target.parent) as folder:
            made = Path(folder, "made")
            _run([sys.executable, "-m", "venv", str(made)], INSTALL_LIMIT_S)
            pip = [str(_python(made)), "-m", "pip", "--disable-pip-version-check", "--retries", "1", "--timeout", "15"]
            _run([*pip, "install", "--quiet", f"apache-otava=={VERSION}"], INSTALL_LIMIT_S)
            made.rename(target)
    except OSError as error:
        if not is_installed():  # by another process, at the same time
            raise OtavaError(f"otava cannot be installed in {target} ({error.strerror or error})") from None


def candidates(series: Mapping[str, Sequence[float]]) -> dict[str, list[Candidate]]:
    """Return where otava sees another level in each series.

    Args:
        series: finite numbers by name, oldest first.

    Raises:
        OtavaError: it is not installed, or fails.
    """
    answer = _run([str(_python(python_folder())), "-c", _PROGRAM], LIMIT_S, json.dumps(series))
    try:
        found = json.loads(answer)
        return {name: [Candidate(int(index), float(p_value)) for index, p_value in found[name]] for name in series}
    except (ValueError, TypeError, KeyError):
        raise OtavaError(f"otava's answer cannot be read; remove {python_folder()} to install it anew") from None


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _run(command: Sequence[str], limit_s: int, text: str = "") -> str:
    """Return what a command prints; raises OtavaError with the last line of its errors."""
    settings = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        ended = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, timeout=limit_s, env=settings
        )
    except subprocess.TimeoutExpired:
        raise OtavaError(f"{command[0]} took more than {limit_s} s") from None
    except OSError as error:
        raise OtavaError(f"{command[0]} cannot be run ({error.strerror})") from None
    if ended.returncode:
        reason = (ended.stderr.strip().splitlines() or [f"exit status {ended.returncode}"])[-1]
        raise OtavaError(reason)
    return ended.stdout
