"""What the run time knows of the machine: cores, and how much of them the control groups leave."""

import os
from pathlib import Path

import pytest

from gathernest.kernels.host import cpu


@pytest.fixture
def groups(tmp_path: Path):
    """Return a function that writes control groups, and gives the quota that they make."""

    def quota(membership: str, files: dict[str, str]) -> float | None:
        (tmp_path / "process").mkdir(exist_ok=True)
        (tmp_path / "process" / "cgroup").write_text(membership)
        for name, text in files.items():
            (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "groups" / name).write_text(text)
        cpu.cpu_quota.cache_clear()
        return cpu.cpu_quota(*places)

    places = tmp_path / "process", tmp_path / "groups"
    yield quota
    cpu.cpu_quota.cache_clear()


def first_version(controller: str, quota_us: int) -> dict[str, str]:
    return {f"{controller}/job/cpu.cfs_{name}_us": f"{us}\n" for name, us in (("quota", quota_us), ("period", 100_000))}


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        ("0::/work/job\n", {"work/job/cpu.max": "150000 100000\n"}, 1.5),
        # A group above may allow less.
        (
            "0::/work/job\n",
            {"work/job/cpu.max": "400000 100000\n", "work/cpu.max": "200000 100000\n", "cpu.max": "max 100000\n"},
            2.0,
        ),
        ("0::/work\n", {"work/cpu.max": "max 100000\n"}, None),
        # In a container, the root that it sees counts.
        ("0::/../../host/container\n", {"cpu.max": "50000 100000\n"}, 0.5),
        ("5:memory:/other\n4:cpu,cpuacct:/job\n0::/\n", first_version("cpu,cpuacct", 300_000), 3.0),
        ("4:cpu:/job\n", first_version("cpu", -1), None),
        ("4:cpuset:/job\n", first_version("cpuset", 100_000), None),
        # A file that makes no sense sets no limit.
        *(("0::/job\n", {"job/cpu.max": text}, None) for text in ("", "100000", "many 100000\n", "100000 0\n")),
    ],
)
def test_the_quota_is_that_of_the_groups(groups, membership, files, cores):
    assert groups(membership, files) == cores


def test_a_system_without_control_groups_sets_no_limit(tmp_path):
    assert cpu.cpu_quota(tmp_path / "nowhere", tmp_path) is None


@pytest.mark.parametrize(("text", "cores"), [("max", 99), ("20000", 1), ("100000", 1), ("150000", 2), ("6400000", 64)])
def test_usable_cores_are_the_quota_rounded_up_and_no_more_than_there_are(groups, tmp_path, text, cores):
    groups("0::/job\n", {"job/cpu.max": f"{text} 100000\n"})
    assert cpu.usable_cores(tmp_path / "process", tmp_path / "groups") == min(cores, cpu.affine_cores())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no threads to cores")
def test_affine_cores_follow_the_affinity_of_the_thread():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert cpu.affine_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert cpu.affine_cores() == len(before)
