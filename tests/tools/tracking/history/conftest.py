"""A repository of sixty commits, and results of them in asv's own format and in that of a comparison."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from gathernest.kernels.host import checkout

ROOT = Path(__file__).resolve().parents[4]
COMMITS, CHANGED = 60, 37
LOOP = "gather indices_i#2"
COLUMNS = ("result", "params", "version", "started_at", "duration", "stats_ci_99_a", "samples")


def static_reports() -> list[str]:
    """Return the first kernel of the committed static report, and the same with another load in a loop."""
    report = json.loads((ROOT / "asv_bench" / "static.json").read_text(encoding="utf-8"))
    (kernel, *_), report["bytes"] = report["kernels"], {}
    texts = []
    for more in (0, 1):
        loops = [
            {
                **kernel["loops"][-1],
                "name": LOOP,
                "loads": 4 + more,
                "code": [".L1:", *["movq (%rax), %rbx"] * (4 + more), "jne .L1"],
            }
        ]
        report["kernels"] = [{**kernel, "cases": ["rows"], "assembly": str(more), "loops": loops}]
        texts.append(json.dumps(report))
    return texts


@pytest.fixture(scope="session")
def repository(program, tmp_path_factory) -> tuple[Path, list[str]]:
    """Return a repository and its commits, oldest first; the static report changes at commit `CHANGED`."""
    program("git")
    folder = tmp_path_factory.mktemp("repository")
    blobs, commits = [], []
    for text in static_reports():
        blobs.append(f"blob\nmark :{len(blobs) + 1}\ndata {len(text.encode())}\n{text}\n")
    for number in range(COMMITS):
        subject = f"change {number} <of> the suite"
        line = (
            f"commit refs/heads/main\nmark :{number + 10}\ncommitter A <a@b> {1_700_000_000 + 86400 * number} +0000\n"
        )
        line += f"data {len(subject)}\n{subject}\n"
        if number in (1, CHANGED):
            line += f"M 100644 :{1 if number == 1 else 2} asv_bench/static.json\n"
        commits.append(line)
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    git = ["git", "-C", str(folder)]
    subprocess.run([*git, "fast-import", "--quiet"], input="".join(blobs + commits), text=True, check=True)
    names = subprocess.run([*git, "rev-list", "--reverse", "main"], capture_output=True, text=True, check=True)
    subprocess.run([*git, "symbolic-ref", "HEAD", "refs/heads/main"], check=True)
    return folder, names.stdout.split()


@pytest.fixture
def commits(repository, monkeypatch) -> list[str]:
    """Return the commits of the repository, which takes the place of the checkout."""
    monkeypatch.setattr(checkout, "PACKAGE", repository[0])
    return repository[1]


def write_asv(
    folder: Path,
    commit: str,
    results: Mapping[str, object],
    *,
    machine: str = "quiet",
    params: Sequence[Sequence[str]] = (),
    version: str = "1",
) -> Path:
    """Write one commit's results as asv 0.6.6 does; with `params`, each benchmark has a list of values."""
    place = folder / machine
    place.mkdir(parents=True, exist_ok=True)
    (place / "machine.json").write_text(json.dumps({"machine": machine, "version": 1}))
    data = {
        "commit_hash": commit,
        "env_name": "virtualenv-py3.11",
        "date": 1_700_000_000_000,
        "params": {"arch": "x86_64", "machine": machine, "python": "3.11"},
        "python": "3.11",
        "requirements": {},
        "env_vars": {},
        "result_columns": COLUMNS,
        "results": {
            name: [value if params else [value], [list(words) for words in params], version, 1_700_000_000_000, 0.5]
            for name, value in results.items()
        },
        "durations": {},
        "version": 2,
    }
    path = place / f"{commit[:8]}-virtualenv-py3.11.json"
    path.write_text(json.dumps(data))
    return path


@pytest.fixture
def stored(tmp_path, commits) -> Callable[..., Path]:
    """Return a function that writes the values of benchmarks, one a commit, and returns the folder."""

    def write(**benchmarks: Sequence[float]) -> Path:
        for number, commit in enumerate(commits):
            write_asv(
                tmp_path / "results", commit, {f"work.Work.{name}": row[number] for name, row in benchmarks.items()}
            )
        return tmp_path / "results"

    return write
