"""What CI runs: every command of the workflow is one that the repository has, and results are stored and read again."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

yaml = pytest.importorskip("yaml", reason="MkDocs of the extra docs installs it")


def jobs() -> list[dict]:
    """Return every job of the workflows."""
    return [job for path in WORKFLOWS for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()]


def test_targets_of_ci_are_those_of_the_makefile_and_its_scripts_are_there():
    commands = [step["run"] for job in jobs() for step in job["steps"] if "run" in step]
    commands += re.findall(r"^step (.*)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    asked = {name for command in commands for name in re.findall(r"\bmake ([\w./-]+)", command)}
    made = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert asked >= {"test", "test-all", "check", "pythons", "static", "asv", "compare", "asv-site"}
    assert asked - made == {".venv/.installed-run", ".venv/.installed-dev"}
    scripts = {name for command in commands for name in re.findall(r"(?<!/)(\.ci/[a-z]+)", command)}
    assert scripts == {".ci/results", ".ci/tools"}
    assert all(os.access(ROOT / name, os.X_OK) for name in scripts)


def test_ci_runs_the_tests_before_it_installs_programs():
    steps = re.findall(r"^step (.*)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert steps.index("make test") < steps.index(".ci/tools") < steps.index("make test-rest")


@pytest.mark.parametrize("script", ["run", "tools", "pythons", "aarch64", "results"])
def test_scripts_parse(script):
    subprocess.run(["bash", "-n", ROOT / ".ci" / script], check=True)


def test_every_job_ends():
    assert all(job["timeout-minutes"] <= 30 for job in jobs())


@pytest.fixture
def checkouts(program, tmp_path):
    """Return two clones of a repository that has the script of results."""
    program("git")

    def git(*words):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)

    git("init", "-q", "--bare", "remote")
    clones = [tmp_path / "one", tmp_path / "two"]
    for clone in clones:
        git("clone", "-q", "remote", clone.name)
        (clone / ".ci").mkdir()
        (clone / "asv_bench" / "results").mkdir(parents=True)
        shutil.copy(ROOT / ".ci" / "results", clone / ".ci")
        git("-C", clone.name, "commit", "-q", "--allow-empty", "-m", "first")
    return clones


def results(checkout: Path, word: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([checkout / ".ci" / "results", word], capture_output=True, text=True, check=False)


def test_results_of_two_checkouts_merge_on_their_branch(checkouts):
    one, two = checkouts
    assert results(one, "fetch").stdout == "no results yet\n"
    for checkout, name in ((one, "a.json"), (two, "b.json")):
        assert results(checkout, "fetch").returncode == 0
        (checkout / "asv_bench" / "results" / name).write_text(name)
        assert (ended := results(checkout, "store")).returncode == 0, ended.stderr
    assert results(one, "fetch").returncode == 0
    assert sorted(path.name for path in (one / "asv_bench" / "results").iterdir()) == ["a.json", "b.json"]


def test_results_that_were_not_fetched_are_never_dropped(checkouts):
    for checkout, name in zip(checkouts, ("a.json", "b.json"), strict=True):
        (checkout / "asv_bench" / "results" / name).write_text(name)
    one, two = checkouts
    assert results(one, "store").returncode == 0
    assert results(two, "store").returncode != 0


def test_storing_nothing_is_said(checkouts):
    shutil.rmtree(checkouts[0] / "asv_bench" / "results")
    ended = results(checkouts[0], "store")
    assert (ended.returncode, ended.stderr) == (2, "there are no results in asv_bench; make asv writes some\n")
