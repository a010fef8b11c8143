"""What is installed, and what the files beside the code say."""

import subprocess
import sys
import tomllib
from pathlib import Path

import gathernest as gn

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "gathernest", "--version"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"gathernest {gn.__version__}\n", "")


def test_wheel_has_every_package_the_types_and_the_licence() -> None:
    settings = PROJECT["tool"]["setuptools"]
    floors = ("ir", "lowering", "kernels", "interop", "playground", "tools", "asv_bench/benchmarks")
    found = {
        ".".join(path.parent.relative_to(ROOT).parts) for floor in floors for path in ROOT.glob(f"{floor}/**/*.py")
    }
    moved = {"interop.public_torch": "torch"}
    assert sorted(settings["packages"]) == sorted(
        ["gathernest", "gathernest.asv_bench", *(f"gathernest.{moved.get(name, name)}" for name in found)]
    )
    assert settings["package-data"] == {
        "gathernest": ["__init__.pyi", "py.typed"],
        "gathernest.asv_bench": ["by_hand.c"],
        "gathernest.playground": ["templates/*"],
        "gathernest.playground.play": ["play.css"],
    }
    assert (ROOT / "py.typed").exists()
    assert PROJECT["project"]["license"] == "Apache-2.0 WITH LLVM-exception"
    (name,) = PROJECT["project"]["license-files"]
    text = (ROOT / name).read_text()
    assert "Version 2.0, January 2004" in text
    assert "---- LLVM Exceptions to the Apache 2.0 License ----" in text


def test_version_is_the_same_everywhere() -> None:
    assert PROJECT["project"]["version"] == gn.__version__
    assert f"\nversion: {gn.__version__}\n" in (ROOT / "CITATION.cff").read_text()
