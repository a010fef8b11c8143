"""The planted regressions fit the sources; `catch.py` says what finds them."""

import subprocess

import pytest

from .plants import FOLDER, PLANTS

ROOT = FOLDER.parents[1]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_the_patch_applies(plant):
    command = ["git", "apply", "--check", "-"]
    ended = subprocess.run(command, cwd=ROOT, text=True, input=plant.patch, capture_output=True, check=False)
    assert ended.returncode == 0, f"make {plant.name}.patch anew: {ended.stderr}"


def test_each_patch_is_planted():
    assert {path.stem for path in FOLDER.glob("*.patch")} == {plant.name for plant in PLANTS}
