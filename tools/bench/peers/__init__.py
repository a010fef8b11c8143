"""The runtimes that run the cases, gathernest and its peers: each a small adapter in a file of its own.

An adapter says which cases it cannot run and why, and prepares the others for its runtime's fastest path: sessions made
beforehand, inputs not copied for a call, the result preallocated where the runtime takes one.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....ir.errors import DependencyError, did_you_mean
from ....kernels.host.cpu import package_version
from ...terminal import UsageError
from .peer import Peer

# The adapter of each peer, which is called as its package is imported, in the order of the table.
PEERS = {
    "numpy": ".numpy_peer",
    "torch": ".torch_peer",
    "onnxruntime": ".onnxruntime_peer",
    "openvino": ".openvino_peer",
    "tensorflow": ".tensorflow_peer",
    "jax": ".jax_peer",
}

# What pip calls a package, where that is not its name; the first is the one to install.
DISTRIBUTIONS = {"tensorflow": ("tensorflow-cpu", "tensorflow")}


@dataclass(frozen=True, slots=True)
class Entrants:
    """Who takes part.

    Attributes:
        candidates: gathernest first.
        absent: peers that are not installed.
        broken: why each peer that is installed does not work.
        versions: by candidate.
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
    """Import and start the candidates.

    Args:
        asked: names of peers; all that are installed when empty.
        threads: how many threads each may use.

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
    for name, adapter in PEERS.items():
        if asked and name not in asked:
            continue
        try:
            entered.append(importlib.import_module(adapter, __name__).make())
        except ModuleNotFoundError as error:
            if error.name == name:
                absent.append(name)
            else:
                package = str(error.name).partition(".")[0]
                broken[name] = f"needs {package}: pip install {package}"
        except Exception as error:  # a runtime that does not fit this machine may raise anything
            reason = str(error).strip().partition("\n")[0]
            broken[name] = f"cannot be imported: {type(error).__name__}: {reason}"
    _check_all_there(asked, absent, broken)
    for candidate in entered:
        candidate.start(threads)
    versions = {candidate.name: version_of(candidate.name) for candidate in entered}
    return Entrants(tuple(entered), tuple(absent), broken, versions)


def version_of(name: str) -> str:
    """Return the version of the package of a candidate."""
    found = (package_version(package) for package in DISTRIBUTIONS.get(name, (name,)))
    return next((version for version in found if version != "not installed"), "not known")


def _check_all_there(asked: Sequence[str], absent: Sequence[str], broken: Mapping[str, str]) -> None:
    reasons = {name: f"is not installed: pip install {DISTRIBUTIONS.get(name, (name,))[0]}" for name in absent}
    reasons |= broken
    rejected = [f"{name} {reasons[name]}" for name in asked if name in reasons]
    if rejected:
        raise DependencyError(f"--peers names peers that cannot run: {'; '.join(rejected)}")
