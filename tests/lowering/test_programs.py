"""Programs on the PATH: which is taken, and the one reason why none can be used; small scripts stand for them."""

import pytest

from gathernest.ir.errors import DependencyError
from gathernest.lowering import programs
from gathernest.lowering.programs import PROGRAMS, find, find_all
from gathernest.lowering.upstream.machine_code import LLVM_MAJOR

HINT = "; on Debian and Ubuntu: apt-get install "


@pytest.mark.parametrize(
    ("name", "version", "found"),
    [
        ("llvm-mca", "Debian LLVM version 22.1.8", (22, 1, 8)),
        ("llvm-mca", "LLVM version 20.0.0git", (20, 0, 0)),
        ("llvm-mca", "LLVM version " + "9" * 5000, (999_999_999,)),
        ("git", "git version 2.39.5 (Apple Git-154)", (2, 39, 5)),
        ("chromium", "Chromium 150.0.7871.100 built on Debian", (150, 0, 7871, 100)),
    ],
)
def test_a_version_is_read_from_what_the_program_prints(install, name, version, found):
    path = install(name, "exit 1", version=version)
    assert find(name) == programs.Installed(str(path), found)


@pytest.mark.parametrize(
    ("script", "version", "reason"),
    [
        ("", "LLVM version 14.0.6", "is version 14.0.6, which is too old: 20 or newer is understood"),
        ("", "nonsense", "prints no version"),
        ("printf '\\377\\0'", None, "prints no version"),
        ("", None, "prints no version"),
        ("exit 3", None, "--version ends with status 3"),
        ("kill -SEGV $$", None, "--version ends with status -11"),
        ("exec /bin/sleep 1000", None, "--version takes more than 0.1 s"),
    ],
)
def test_a_program_that_is_not_understood_has_one_reason(install, monkeypatch, script, version, reason):
    monkeypatch.setattr(programs, "LIMIT_S", 0.1 if "sleep" in script else programs.LIMIT_S)
    path = install("llvm-mca", script, version=version)
    for look in (find, find_all):
        with pytest.raises(DependencyError) as caught:
            look("llvm-mca")
        assert str(caught.value) == f"{path} {reason}{HINT}llvm-22"


def test_a_program_that_is_missing_or_cannot_be_run_says_so(install):
    assert find_all("llvm-mca") == []
    with pytest.raises(DependencyError, match=f"^llvm-mca is not on the PATH{HINT}llvm-22$"):
        find("llvm-mca")
    path = install("llvm-mca", "", mode=0o644)
    with pytest.raises(DependencyError, match=f"^{path} is not executable{HINT}"):
        find("llvm-mca")
    path.write_text("no program\n")
    path.chmod(0o755)
    with pytest.raises(DependencyError, match=rf"^{path} cannot be run \(Exec format error\){HINT}"):
        find("llvm-mca")


def test_the_newest_version_is_taken_whatever_its_name(install):
    for name, major in (("llvm-mca-21", 21), ("llvm-mca", 23), ("llvm-mca-22", 22), ("llvm-mca-14", 14)):
        install(name, "", version=f"LLVM version {major}.1.0")
    assert [each.name for each in find_all("llvm-mca")] == ["llvm-mca", "llvm-mca-22", "llvm-mca-21"]
    assert find("llvm-mca", major=22).name == "llvm-mca-22"
    with pytest.raises(DependencyError, match=r"llvm-mca-21 is version 21\.1\.0, and 24 is needed; "):
        find("llvm-mca", major=24)


def test_a_program_that_is_installed_anew_is_asked_again(install):
    path = install("git", "", version="git version 2.20.1")
    with pytest.raises(DependencyError, match=r"2\.30 or newer is understood"):
        find("git")
    path.unlink()
    install("git", "", version="git version 2.47.0")
    assert find("git").version == (2, 47, 0)


def test_the_packages_that_are_named_are_of_numbas_llvm():
    assert PROGRAMS["mlir-opt"].package == f"mlir-{LLVM_MAJOR}-tools"
    assert PROGRAMS["llc"].package == f"llvm-{LLVM_MAJOR}"
