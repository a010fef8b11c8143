"""What a shell completes: options, commands, passes, and the other words that options take."""

import functools
import subprocess
import sys

import pytest

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
    """Return a function to the file with the script of a program for a shell."""
    pytest.importorskip("shtab")
    folder = tmp_path_factory.mktemp("scripts")
    modules = {"gathernest": "gathernest", "gathernest-opt": "gathernest.tools.opt"}

    @functools.cache
    def script(program, shell):
        command = [sys.executable, "-m", modules[program], f"--print-completion={shell}"]
        file = folder / f"{program}.{shell}"
        file.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return file

    return script


@pytest.mark.draw(4)
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("gathernest sh", ["show"]),
        ("gathernest show --st", ["--stage"]),
        ("gathernest show --stage fold-", ["fold-bounds", "fold-constants"]),
        ("gathernest show --bounds cl", ["clip"]),
        ("gathernest show --operator gather_n", ["gather_nd", "gather_nd_grad"]),
        ("gathernest exec --engine nu", ["numba"]),
        ("gathernest cache cl", ["clear"]),
        ("gathernest-opt --override", ["--override-dir"]),
        ("gathernest-opt -p tile", ["tile-loops"]),
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
        ["bash", "-c", PRESS_TAB, "bash", str(scripts(words[0], "bash")), *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == wanted


@pytest.mark.parametrize("name", ["gathernest", "gathernest-opt"])
def test_zsh_script_parses(scripts, program, name):
    command = [program("zsh"), "-n", scripts(name, "zsh")]
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""


def test_fish_completes(scripts, program):
    lines = ("gathernest show --bounds cl", "gathernest-opt -p tile", "gathernest-opt -t nu")
    asked = "; ".join(f"complete -C '{line}'" for line in lines)
    command = f"source {scripts('gathernest', 'fish')}; source {scripts('gathernest-opt', 'fish')}; {asked}"
    done = subprocess.run([program("fish"), "--no-config", "-c", command], capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["clip", "tile-loops", "numba"]


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
    assert "invalid choice: 'bahs' (choose from 'bash', 'zsh', 'fish'); did you mean 'bash'?" in ended.err.replace(
        "bash, zsh, fish", "'bash', 'zsh', 'fish'"
    )
