"""What an installed wheel has; `.ci/pythons` runs this with each Python that is found."""

import sys
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

import gathernest as gn

ROOT = Path(__file__).resolve().parents[2]
FOUND = distribution("gathernest")
is_wheel = pytest.mark.skipif(ROOT in Path(gn.__file__).resolve().parents, reason="gathernest is no installed wheel")


def test_metadata_names_this_python_and_the_licence() -> None:
    told = FOUND.metadata
    assert f"Programming Language :: Python :: {sys.version_info.major}.{sys.version_info.minor}" in told.get_all(
        "Classifier"
    )
    assert told["License-Expression"] == "Apache-2.0 WITH LLVM-exception"
    assert "embedding" in told["Keywords"].split(",")


@is_wheel
def test_wheel_has_the_licence_the_types_and_no_tests() -> None:
    names = {str(path) for path in FOUND.files or ()}
    folder = f"gathernest-{gn.__version__}.dist-info"
    assert names >= {"gathernest/py.typed", "gathernest/__init__.pyi", "gathernest/torch/__init__.py"}
    assert names >= {
        f"{folder}/licenses/LICENSE",
        "gathernest/asv_bench/by_hand.c",
        "gathernest/playground/play/play.css",
    }
    assert not [name for name in names if name.startswith(("tests", "gathernest/tests", "gathernest/docs"))]


def test_gather_and_gradient_compile_and_give_the_bytes_of_numpy() -> None:
    table = np.arange(4000, dtype=np.float32).reshape(500, 8)
    rows = np.arange(0, 500, 7)[::-1]
    slices = gn.gather(table, rows)
    np.testing.assert_array_equal(slices, table[rows])
    wanted = np.zeros_like(table)
    wanted[rows] = slices
    np.testing.assert_array_equal(gn.gather_grad(slices, rows, table.shape), wanted)
