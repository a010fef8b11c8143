"""The ways in which `gathernest bench` measures, and the options that each reads: others are errors."""

import argparse

from ..console.terminal import UsageError

_TIMING = frozenset({"quick", "rounds", "threads"})
_SUITE = "the suite beside peers"
# By the option that chooses a way; all of them read --case and --family.
_READ = {
    _SUITE: _TIMING | {"peers", "no_new_results", "markdown", "json", "store", "plot"},
    "list": frozenset[str](),
    "ablation": _TIMING | {"markdown"},
    "scaling": _TIMING | {"markdown", "model"},
    "regret": _TIMING | {"markdown", "candidates", "json", "csv", "stored"},
    "by_hand": _TIMING | {"markdown"},
    "alternating": _TIMING | {"markdown", "peers"},
    "static": frozenset({"against", "json", "machine", "target", "threads", "write"}),
}
_NAMES = {"stored": "from"}


def check_options(options: argparse.Namespace) -> None:
    """Reject options that do not go together; raises UsageError."""
    given = [way for way in _READ if way != _SUITE and getattr(options, way)]
    if len(given) > 1:
        raise UsageError(f"{_flag(given[0])} and {_flag(given[1])} print different things; choose one of them")
    way = given[0] if given else _SUITE
    for option in sorted(frozenset[str]().union(*_READ.values()) - _READ[way]):
        if getattr(options, option):
            readers = [_flag(name) for name, read in _READ.items() if option in read]
            if way != _SUITE:
                raise UsageError(
                    f"{_flag(option)} is for {' or '.join(readers)}; leave out {_flag(option)} or {_flag(way)}"
                )
            raise UsageError(
                f"{_flag(option)} is for {' or '.join(readers)}; add {'it' if len(readers) == 1 else 'one of them'}, "
                f"or leave {_flag(option)} out"
            )


def _flag(name: str) -> str:
    return name if name == _SUITE else f"--{_NAMES.get(name, name).replace('_', '-')}"
