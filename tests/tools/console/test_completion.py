"""What a shell completes: options, commands, passes, and the other words that options take."""

import shutil
import subprocess
import sys

import pytest

SHELLS = ("bash", "zsh")
# Runs the function that the script declares for a command, as bash does when Tab is pressed.
PRESS_TAB = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"
function=$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function" "$1" "${COMP_WORDS[$COMP_CWORD]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The script of each program for each shell, as a file."""
    pytest.importorskip("shtab")
    folder = tmp_path_factory.mktemp("scripts")
    files = {}
    for program, module in (("gathernest", "gathernest"), ("gathernest-opt", "gathernest.tools.mlir_opt.opt")):
        for shell in SHELLS:
            command = [sys.executable, "-m", module, f"--print-completion={shell}"]
            files[program, shell] = folder / f"{program}.{shell}"
            files[program, shell].write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return files


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("gathernest sh", ["show"]),
        ("gathernest show --st", ["--stage"]),
        ("gathernest show --stage fold-", ["fold-bounds", "fold-constants"]),
        ("gathernest show --bounds cl", ["clip"]),
        ("gathernest show --operator gather_n", ["gather_nd", "gather_nd_grad"]),
        ("gathernest exec --engine nu", ["numba"]),
        ("gathernest exec -p nest,tile", ["nest,tile-loops"]),
        ("gathernest cache cl", ["clear"]),
        ("gathernest-opt --override", ["--override-dir"]),
        ("gathernest-opt -p tile", ["tile-loops"]),
        ("gathernest-opt -p nest,tile", ["nest,tile-loops"]),
        ("gathernest-opt --print-ir-after fold-b", ["fold-bounds"]),
        ("gathernest-opt -t nu", ["numba"]),
        ("gathernest-opt stage.ml", ["stage.mlir"]),
        ("gathernest-opt --dump-dir sta", ["stages"]),
    ],
)
def test_bash_completes(scripts, tmp_path, line, wanted):
    (tmp_path / "stage.mlir").write_text("")
    (tmp_path / "stages").mkdir()
    words = line.split()
    done = subprocess.run(
        ["bash", "-c", PRESS_TAB, "bash", str(scripts[words[0], "bash"]), *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == wanted


@pytest.mark.parametrize("program", ["gathernest", "gathernest-opt"])
def test_zsh_script_parses_and_has_the_passes(scripts, program):
    script = scripts[program, "zsh"]
    assert f"#compdef {program}" in script.read_text()
    assert "_values -s , passes" in script.read_text()
    if shutil.which("zsh"):
        assert subprocess.run(["zsh", "-n", script], capture_output=True, check=True).stderr == b""


def test_completion_without_shtab_says_what_to_install(gathernest, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    ended = gathernest("--print-completion=bash")
    assert (ended.status, ended.err) == (
        1,
        "gathernest: error: --print-completion writes the script with shtab, which is not installed: "
        "pip install 'gathernest[completion]'\n",
    )


def test_completion_for_another_shell_is_rejected(gathernest):
    ended = gathernest("--print-completion=bahs")
    assert ended.status == 2
    assert "invalid choice: 'bahs' (choose from 'bash', 'zsh'); did you mean 'bash'?" in ended.err.replace(
        "bash, zsh", "'bash', 'zsh'"
    )
