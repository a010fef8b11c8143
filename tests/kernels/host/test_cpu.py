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
        return cpu.cpu_quota(tmp_path / "process", tmp_path / "groups")

    yield quota
    cpu.cpu_quota.cache_clear()


def test_a_quota_of_version_2_is_that_of_the_own_group(groups):
    assert groups("0::/work/job\n", {"work/job/cpu.max": "150000 100000\n"}) == 1.5


def test_a_group_above_may_allow_less(groups):
    files = {"work/job/cpu.max": "400000 100000\n", "work/cpu.max": "200000 100000\n", "cpu.max": "max 100000\n"}
    assert groups("0::/work/job\n", files) == 2.0


def test_a_group_without_a_limit_sets_none(groups):
    assert groups("0::/work\n", {"work/cpu.max": "max 100000\n"}) is None


def test_in_a_container_the_root_that_it_sees_counts(groups):
    assert groups("0::/../../host/container\n", {"cpu.max": "50000 100000\n"}) == 0.5


def test_a_quota_of_version_1_has_a_file_for_each_number(groups):
    files = {"cpu,cpuacct/job/cpu.cfs_quota_us": "300000\n", "cpu,cpuacct/job/cpu.cfs_period_us": "100000\n"}
    assert groups("5:memory:/other\n4:cpu,cpuacct:/job\n0::/\n", files) == 3.0


def test_version_1_says_no_limit_with_a_negative_number(groups):
    files = {"cpu/job/cpu.cfs_quota_us": "-1\n", "cpu/job/cpu.cfs_period_us": "100000\n"}
    assert groups("4:cpu:/job\n", files) is None


def test_a_controller_whose_name_begins_like_cpu_is_another(groups):
    files = {"cpuset/job/cpu.cfs_quota_us": "100000\n", "cpuset/job/cpu.cfs_period_us": "100000\n"}
    assert groups("4:cpuset:/job\n", files) is None


@pytest.mark.parametrize("text", ["", "100000", "many 100000\n", "100000 0\n"])
def test_a_file_that_makes_no_sense_sets_no_limit(groups, text):
    assert groups("0::/job\n", {"job/cpu.max": text}) is None


def test_a_system_without_control_groups_sets_no_limit(tmp_path):
    assert cpu.cpu_quota(tmp_path / "nowhere", tmp_path) is None


@pytest.mark.parametrize(("quota", "cores"), [(None, 8), (0.2, 1), (1.0, 1), (1.5, 2), (7.01, 8), (64.0, 8)])
def test_usable_cores_are_the_quota_rounded_up_and_no_more_than_there_are(monkeypatch, quota, cores):
    monkeypatch.setattr(cpu, "affine_cores", lambda: 8)
    monkeypatch.setattr(cpu, "cpu_quota", lambda: quota)
    assert cpu.usable_cores() == cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no threads to cores")
def test_affine_cores_follow_the_affinity_of_the_thread():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert cpu.affine_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert cpu.affine_cores() == len(before)


def test_own_caches_are_those_of_a_core_that_are_smaller_than_the_table(monkeypatch):
    monkeypatch.setattr(cpu, "cache_sizes", lambda: {"L1": 100, "L2": 1000, "L3": 10_000})
    sizes = [cpu.own_cache_bytes(table_bytes) for table_bytes in (100, 101, 1000, 1001, 10**6)]
    assert sizes == [0, 100, 100, 1100, 1100]
    monkeypatch.setattr(cpu, "cache_sizes", dict)
    assert cpu.own_cache_bytes(10**6) == 0
