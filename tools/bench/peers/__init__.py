"""The runtimes that run the cases, gathernest and its peers: each a small adapter in a file of its own.

An adapter says which cases it cannot run and why, and prepares the others for its runtime's fastest path: sessions made
beforehand, inputs not copied for a call, the result preallocated where the runtime takes one.
"""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass

from ....ir.errors import DependencyError, did_you_mean
from ....kernels.host.cpu import package_version
from ...console.terminal import UsageError
from .peer import Peer

# The adapter of each peer, in the order of the table; a peer is called as its package is imported.
PEERS = {
    "numpy": "NumPy",
    "torch": "Torch",
    "onnxruntime": "OnnxRuntime",
    "openvino": "OpenVino",
    "tensorflow": "TensorFlow",
    "jax": "Jax",
}


@dataclass(frozen=True, slots=True)
class Entrants:
    """Who takes part.

    Attributes:
        candidates: gathernest first.
        absent, broken: peers that are not installed, and why each that is installed does not work.
    """

    candidates: tuple[Peer, ...]
    absent: tuple[str, ...]
    broken: dict[str, str]
    versions: dict[str, str]

    @property
    def notes(self) -> list[str]:
        """A line that names the peers that are not installed, and one for each that does not work."""
        names = ", ".join(self.absent)
        lines = [f"without {names}, not installed here: pip install 'gathernest[peers]'"] if names else []
        return lines + [f"without {name}, which {reason}" for name, reason in self.broken.items()]


def enter(asked: Sequence[str], threads: int) -> Entrants:
    """Import gathernest and the peers asked for, or all that are installed, and start them with so many threads.

    Raises:
        UsageError: there is no peer of that name.
        DependencyError: a named peer cannot be imported.
    """
    for name in asked:
        if name not in PEERS:
            raise UsageError(f"there is no peer {name!r}; the peers are {', '.join(PEERS)}{did_you_mean(name, PEERS)}")
    from .gathernest_peer import Gathernest

    entered: list[Peer] = [Gathernest()]
    absent: list[str] = []
    broken: dict[str, str] = {}
    for name in PEERS:
        if asked and name not in asked:
            continue
        try:
            entered.append(load(name))
        except ModuleNotFoundError as error:
            if error.name == name:
                absent.append(name)
            else:
                package = str(error.name).partition(".")[0]
                broken[name] = f"needs {package}: pip install {package}"
        except Exception as error:  # a runtime that does not fit this machine may raise anything
            reason = str(error).strip().partition("\n")[0]
            broken[name] = f"cannot be imported: {type(error).__name__}: {reason}"
    reasons = {name: f"is not installed: pip install {_distributions(name)[0]}" for name in absent} | broken
    if rejected := [f"{name} {reasons[name]}" for name in asked if name in reasons]:
        raise DependencyError(f"--peers names peers that cannot run: {'; '.join(rejected)}")
    for candidate in entered:
        candidate.start(threads)
    versions = {candidate.name: version_of(candidate.name) for candidate in entered}
    return Entrants(tuple(entered), tuple(absent), broken, versions)


def load(name: str) -> Peer:
    """Import the runtime of a peer and return its adapter; raises whatever the import raises."""
    return getattr(importlib.import_module(f".{name}_peer", __name__), PEERS[name])()


def version_of(name: str) -> str:
    """Return the version of the package of a candidate."""
    found = (package_version(package) for package in _distributions(name))
    return next((version for version in found if version != "not installed"), "not known")


def _distributions(name: str) -> tuple[str, ...]:
    """Return what pip calls the package of a candidate; the first is the one to install."""
    return ("tensorflow-cpu", "tensorflow") if name == "tensorflow" else (name,)
