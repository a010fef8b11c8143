"""The conda recipe, the workflow and the hooks say what pyproject.toml says; messages name extras that there are."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from gathernest.kernels.host import dependencies

yaml = pytest.importorskip("yaml", reason="MkDocs of the extra docs installs it")
ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FLOORS = ("ir", "lowering", "kernels", "interop", "playground", "tools")


def requirements(lines: list[str]) -> dict[str, SpecifierSet]:
    """Return names and versions; `~=0.74.0` is the same as `>=0.74.0,<0.75`."""
    lines = [
        re.sub(r"~=(\d+)\.(\d+)\.(\d+)", lambda m: f">={m[0][2:]},<{m[1]}.{int(m[2]) + 1}", line) for line in lines
    ]
    return {one.name: one.specifier for one in map(Requirement, lines)}


def test_recipe_has_the_version_the_dependencies_and_the_programs_of_the_package():
    recipe = yaml.safe_load((ROOT / "conda.recipe" / "recipe.yaml").read_text())
    assert recipe["context"]["version"] == PROJECT["version"]
    python = f"python {PROJECT['requires-python']}"
    assert requirements(recipe["requirements"]["run"]) == requirements([python, *PROJECT["dependencies"]])
    programs = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == programs
    assert (recipe["about"]["license"], recipe["about"]["summary"]) == (PROJECT["license"], PROJECT["description"])


def test_workflow_tests_each_python_of_the_classifiers():
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == named
    assert f">={named[0]}" == PROJECT["requires-python"]


def test_hooks_run_programs_that_the_extra_dev_installs():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    programs = {hook["entry"].split()[0] for hook in hooks} - {".venv/bin/python"}
    assert programs == {f".venv/bin/{name}" for name in ("ruff", "lint-imports", "check-jsonschema")}


def test_every_extra_that_a_message_names_is_there():
    sources = [path.read_text() for floor in FLOORS for path in (ROOT / floor).rglob("*.py")]
    named = {
        name for text in sources for names in re.findall(r"gathernest\[([\w,]+)\]", text) for name in names.split(",")
    }
    extras = PROJECT["optional-dependencies"]
    assert {"torch", "completion", "play", "report", "peers"} <= named | {*dependencies.EXTRAS.values()}
    assert named | {*dependencies.EXTRAS.values()} <= {*extras}
    for package, extra in dependencies.EXTRAS.items():
        assert any(re.match(rf"{package}\b", line) for line in extras[extra]), (package, extra)
