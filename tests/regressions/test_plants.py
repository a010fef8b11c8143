"""The planted regressions fit the sources; `catch.py` says what finds them."""

import subprocess

import pytest

from .plants import AGAIN, FOLDER, PLANTS

ROOT = FOLDER.parents[1]


@pytest.mark.parametrize("plant", [*PLANTS, AGAIN], ids=lambda plant: plant.name)
def test_the_patch_applies(plant, program):
    command = [program("git"), "apply", "--check", "-"]
    patch = plant.patch.replace("PERCENT", "5")
    ended = subprocess.run(command, cwd=ROOT, text=True, input=patch, capture_output=True, check=False)
    assert ended.returncode == 0, f"make {plant.name}.patch anew: {ended.stderr}"


def test_each_patch_is_planted():
    assert {path.stem for path in FOLDER.glob("*.patch")} == {plant.name for plant in (*PLANTS, AGAIN)}
