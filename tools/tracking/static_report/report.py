"""The static report as a value and as the text of a file, one loop or instruction a line, so that a diff reads well."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....ir.errors import GathernestError
from ....ir.numbers import parse_json
from .kernel_facts import Conditions, KernelFacts


class StaticFileError(GathernestError):
    """A file of a static report cannot be read."""


@dataclass(frozen=True, slots=True)
class StaticReport:
    """The kernels of some cases, as they are compiled for a fixed machine.

    Attributes:
        conditions: the machine.
        versions: of the packages, and of Python, that made them.
        kernels: by case; cases of one kernel have equal values.
        bytes: by case, the fewest bytes of one call by stream, as the roofline bound counts them, to four digits.
    """

    conditions: Conditions
    versions: Mapping[str, str]
    kernels: Mapping[str, KernelFacts]
    bytes: Mapping[str, Mapping[str, int]]

    def grouped(self) -> list[tuple[KernelFacts, list[str]]]:
        """Return each kernel with its cases, in the order of the first ones."""
        cases: dict[KernelFacts, list[str]] = {}
        for case, kernel in self.kernels.items():
            cases.setdefault(kernel, []).append(case)
        return list(cases.items())

    def text(self) -> str:
        """Return it as JSON, with a line for each stage, loop and instruction."""
        said = {"versions": dict(self.versions), "target": self.conditions.target, "machine": self.conditions.machine}
        lines = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in said.items()]
        lines += [
            ' "bytes": {',
            *_separated(f"  {_pair(case, streams)}" for case, streams in self.bytes.items()),
            " },",
        ]
        kernels = [_kernel_text(kernel, cases) for kernel, cases in self.grouped()]
        return "\n".join(["{", *lines, ' "kernels": [', ",\n".join(kernels), " ]", "}", ""])


def read_report(text: str, name: str) -> StaticReport:
    """Return the report of a file's text, which messages call `name`; raises StaticFileError."""
    try:
        said = parse_json(text)
        kernels: dict[str, KernelFacts] = {}
        for stored in said["kernels"]:
            kernels |= dict.fromkeys(stored["cases"], KernelFacts.from_json(stored))
        conditions = Conditions(said["target"], said["machine"])
        return StaticReport(conditions, said["versions"], kernels, said["bytes"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StaticFileError(
            f"{name} is no static report, or one of another revision; `gathernest bench --static --json FILE` makes one"
        ) from None


def _pair(name: str, value: Any) -> str:
    return f"{json.dumps(name)}: {json.dumps(value)}"


def _separated(lines: Iterable[str]) -> list[str]:
    """Return the elements of a list or an object in JSON, a line each."""
    found = list(lines)
    return [f"{line}{',' if number < len(found) else ''}" for number, line in enumerate(found, 1)]


def _kernel_text(kernel: KernelFacts, cases: Sequence[str]) -> str:
    stored = kernel.to_json()
    texts = {"cases": list(cases), **{name: stored[name] for name in ("schedule", "source", "assembly")}}
    lines = [" {", *(f" {_pair(name, value)}," for name, value in texts.items())]
    lines += [' "stages": [', *_separated(f"  {json.dumps(stage)}" for stage in stored["stages"]), " ],"]
    return "\n".join([*lines, ' "loops": [', ",\n".join(map(_loop_text, stored["loops"])), " ]", " }"])


def _loop_text(loop: Mapping[str, Any]) -> str:
    facts = ", ".join(_pair(name, value) for name, value in loop.items() if name != "code")
    code = _separated(f"  {json.dumps(line)}" for line in loop["code"])
    return "\n".join([f'  {{{facts}, "code": [', *code, "  ]}"]) if code else f'  {{{facts}, "code": []}}'
