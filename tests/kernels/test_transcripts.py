"""Transcripts: calls of the library, and what they give, as goldens in `tests/golden/texts/calls/`.

A line `>>> SOURCE` is an expression or a statement of Python, which knows `gn`, `np` and `ml_dtypes`. The indented
lines below are its answer, which `--update-golden` writes anew: the value, or, behind `!`, the class and the message of
its error. A comment begins a part, and a call may use the names of the calls above. Each error is one of the package's
own, has short lines, gives no warning of NumPy, and leaves every named array as it was. Addresses and long lists of
names, such as all operators, are left out.
"""

import re
import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gathernest as gn

TEXTS = Path(__file__).parents[1] / "golden" / "texts" / "calls"
LEFT_OUT = re.compile(r"0x[0-9a-f]{6,}|(?:[\w.<>-]+, ){6,}[\w.<>-]+")
NAMES = sorted(path.stem for path in TEXTS.glob("*.txt"))


def shown(value: object) -> str:
    return f"{value.dtype} {value.tolist()}" if isinstance(value, np.ndarray) else repr(value)


def arrays(names: dict[str, Any]) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in names.items() if type(value) is np.ndarray}


def answer(source: str, names: dict[str, Any]) -> list[str]:
    """Return the lines of the answer to a call."""
    before = arrays(names)
    try:
        code = compile(source, "<call>", "eval")
    except SyntaxError:
        code = compile(source, "<call>", "exec")
    with warnings.catch_warnings(action="error"):
        try:
            value = eval(code, names)
        except gn.GathernestError as error:
            assert arrays(names) == before, f"{source} writes before it fails"
            lines = f"{type(error).__name__}: {error}".splitlines()
            assert max(map(len, lines)) < 1000, source
            return [f"! {LEFT_OUT.sub('#', line)}" for line in lines]
    return [] if value is None else shown(value).splitlines()


def answered(text: str) -> str:
    """Return a transcript with the answers of now."""
    found, names = list[str](), {"gn": gn, "np": np, "ml_dtypes": ml_dtypes}
    for line in text.splitlines():
        if line.startswith("    ") or not line:
            continue
        found += ["", line] if line.startswith("#") and found else [line]
        if line.startswith(">>> "):
            found += [f"    {each}" for each in answer(line[4:], names)]
        else:
            assert line.startswith("#"), f"{line} is no call"
    return "\n".join(found) + "\n"


@pytest.mark.parametrize("name", NAMES)
def test_calls_give_what_was_reviewed(name, serial, golden):
    text = (TEXTS / f"{name}.txt").read_text()
    assert text.count("\n>>> ") > 5
    golden(f"calls/{name}.txt", answered(text))
