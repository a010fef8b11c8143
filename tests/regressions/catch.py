"""Make each planted regression in a clone of this checkout, and say which trackers find it.

    python tests/regressions/catch.py [NAME ...] [--tracker static|counts|compare] [--budget 2m]

The trackers are the static report, the exact counts and the paired comparison of `docs/tracking.md`. The clone has the
last commit, not what is changed since. A plant takes about the budget and two minutes. The status is 1 where a tracker
misses a plant that it must find, or names another cause.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from plants import FOLDER, PLANTS, Plant

from gathernest.tools.tracking.causes import COUNT_LIMIT_S, counts_by_name
from gathernest.tools.tracking.processes import Process

TRACKERS = ("static", "counts", "compare")
# Growth of a count from which on it is named: less is what moved addresses make of instructions.
LEAST_GROWTH = 1.05
AUTHOR = ("-c", "user.name=plant", "-c", "user.email=plant@invalid")


class Clone:
    """A clone of the checkout, whose package its commands import."""

    def __init__(self, folder: Path):
        self.folder = folder / "gathernest"
        source = FOLDER.parents[1]
        subprocess.run(["git", "clone", "-q", "--shared", str(source), str(self.folder)], check=True)
        self.head = self.git("rev-parse", "HEAD").strip()
        others = {name: value for name, value in os.environ.items() if not name.startswith("GATHERNEST_")}
        self.environment = others | {"PYTHONPATH": str(folder), "GATHERNEST_CACHE_DIR": str(folder / "cache")}

    def git(self, *arguments: str, text: str | None = None) -> str:
        """Return what a git command prints."""
        command = ["git", "-C", str(self.folder), *AUTHOR, *arguments]
        return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, input=text).stdout

    def plant(self, name: str, patch: str) -> None:
        """Commit a regression on the commit of the checkout, and nothing else."""
        self.git("checkout", "-q", "--detach", self.head)
        self.git("apply", "--index", "-", text=patch)
        self.git("commit", "-q", "--no-verify", "-m", name)

    def python(self, *arguments: str) -> tuple[int, Any]:
        """Return the status of a Python command, and the JSON that it prints last."""
        command = [sys.executable, *arguments]
        ended = subprocess.run(
            command, cwd=self.folder, env=self.environment, check=False, text=True, stdout=subprocess.PIPE
        )
        if not ended.stdout.strip():
            raise SystemExit(f"{' '.join(command)} printed nothing; status {ended.returncode}")
        return ended.returncode, json.loads(ended.stdout)

    def counts(self) -> dict[str, float]:
        """Return the exact counts by name."""
        question = {"counts": str(self.folder / "asv_bench")}
        with Process(sys.executable, self.environment, self.folder, "the clone", "see its errors") as process:
            answer = process.ask(question, COUNT_LIMIT_S)
        if "counts" not in answer:
            raise SystemExit(f"the counts of the clone fail: {answer['missing']}")
        return counts_by_name(answer["counts"])


def in_static_report(clone: Clone, plant: Plant) -> tuple[bool, str]:
    """Return whether the static report says of a plant what it must, and its answer."""
    status, found = clone.python("-m", "gathernest", "bench", "--static", "--against", clone.head, "--json", "-")
    causes = sorted({change["what"].partition("{")[0] or change["kind"] for change in found["changes"]})
    loops = sorted({loop["name"] for change in found["changes"] for loop in change["loops"]})
    is_right = causes == ([plant.static] if plant.static else []) and status == bool(causes)
    said = f"{', '.join(causes)} in {len(loops)} loops, as {loops[0]}" if causes else "nothing"
    return is_right and any(plant.loop in loop for loop in loops or [""]), said


def in_counts(before: dict[str, float], after: dict[str, float], plant: Plant) -> tuple[bool, str]:
    """Return whether the counts say of a plant what they must, and those that changed most."""
    grown = {
        name: after[name] / before[name]
        for name in before
        if before[name] > 0 and after.get(name, 0) >= LEAST_GROWTH * before[name]
    }
    said = [f"{name} x {ratio:.3g}" for name, ratio in sorted(grown.items(), key=lambda pair: -pair[1])[:3]]
    return any(name.startswith(plant.counts) for name in grown) or not plant.counts, ", ".join(said) or "nothing"


def in_comparison(clone: Clone, budget: str) -> tuple[bool, str]:
    """Return whether the paired comparison raises an alarm, and those that it raises."""
    command = ("-m", "gathernest", "bench", "compare", clone.head, "HEAD", "--budget", budget, "--json", "-")
    status, found = clone.python(*command)
    slower = {name: fact["ratio"] for name, fact in found["benchmarks"].items() if fact["verdict"] == "slower"}
    said = [f"{name} x {ratio:.3g}" for name, ratio in sorted(slower.items(), key=lambda pair: -pair[1])[:4]]
    return status == 1 and bool(slower), ", ".join(said) or "nothing"


def ask(tracker: str, clone: Clone, plant: Plant, before: dict[str, float], budget: str) -> tuple[bool, str]:
    """Return whether a tracker says of a planted regression what it must, and its answer."""
    if tracker == "static":
        return in_static_report(clone, plant)
    return in_counts(before, clone.counts(), plant) if tracker == "counts" else in_comparison(clone, budget)


def main() -> int:
    """Plant what the command line names, or everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [plant.name for plant in PLANTS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"plants: {', '.join(names)} (default: all)")
    parser.add_argument("--tracker", action="append", choices=TRACKERS, help="only this one; several may be given")
    parser.add_argument("--budget", default="2m", help="time of a paired comparison (default: 2m)")
    options = parser.parse_args()
    options.tracker = options.tracker or TRACKERS
    if unknown := [name for name in options.names if name not in names]:
        parser.error(f"there is no plant {unknown[0]!r}; there are {', '.join(names)}")
    missed = 0
    with tempfile.TemporaryDirectory(prefix="gathernest-plants-") as folder:
        clone = Clone(Path(folder))
        before = clone.counts() if "counts" in options.tracker else {}
        for plant in PLANTS:
            if options.names and plant.name not in options.names:
                continue
            clone.plant(plant.name, plant.patch)
            print(f"{plant.name}: {plant.patch.partition(chr(10))[0]}", flush=True)
            for tracker in options.tracker:
                is_right, said = ask(tracker, clone, plant, before, options.budget)
                missed += not is_right
                print(f"  {tracker:8} {'right' if is_right else 'WRONG'}  {said}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
