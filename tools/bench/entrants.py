"""Who takes part in a run of the suite: the libraries that are installed, or the peers that --peers names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

from ...ir.errors import DependencyError, GathernestError, did_you_mean
from ...kernels.host.cpu import package_version
from ...lowering.schedule.steps import STEPS
from ..console.terminal import UsageError
from .by_hand import ByHand, FusedByHand, UncheckedByHand
from .peers import ALL, PEERS, Gathernest, OneThread, Peer, WithoutPass

# The packages of a peer that are not called as it is; the first is the one to install.
_DISTRIBUTIONS = {"tensorflow": ("tensorflow-cpu", "tensorflow")}


def _named_peers() -> dict[str, Callable[[], Peer]]:
    """Return how each peer that can be named is made."""
    passes = {f"without-{name}": partial(WithoutPass, name) for name in (*STEPS, ALL)}
    others = {peer.name: peer for peer in (ByHand, FusedByHand, UncheckedByHand, OneThread)}
    return {**PEERS, **others, **passes}


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
    """Import gathernest and the peers asked for, or all libraries that are installed, and start them.

    Args:
        asked: patterns of names; * stands for anything.
        threads: of each.

    Raises:
        UsageError: there is no peer of that name.
        DependencyError: a named peer cannot be imported, or there is no C compiler for it.
    """
    makers = _named_peers()
    for pattern in asked:
        if not any(fnmatchcase(name, pattern) for name in makers):
            others = [name for name in makers if not name.startswith("without-")]
            raise UsageError(
                f"there is no peer {pattern!r}; the peers are {', '.join(others)}, without-PASS and without-{ALL}"
                f"{did_you_mean(pattern, makers)}"
            )
    names = [name for name in makers if any(fnmatchcase(name, pattern) for pattern in asked)] if asked else [*PEERS]
    entered: list[Peer] = [Gathernest()]
    absent: list[str] = []
    broken: dict[str, str] = {}
    for name in names:
        try:
            entered.append(makers[name]())
        except GathernestError:
            raise
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
    if asked and reasons:
        raise DependencyError(
            f"--peers names peers that cannot run: {'; '.join(f'{name} {why}' for name, why in reasons.items())}"
        )
    for candidate in entered:
        candidate.start(threads)
    versions = {candidate.name: candidate.version or version_of(candidate.name) for candidate in entered}
    return Entrants(tuple(entered), tuple(absent), broken, versions)


def version_of(name: str) -> str:
    """Return the version of the package of a candidate."""
    found = (package_version(package) for package in _distributions(name))
    return next((version for version in found if version != "not installed"), "not known")


def _distributions(name: str) -> tuple[str, ...]:
    return _DISTRIBUTIONS.get(name, (name,))
