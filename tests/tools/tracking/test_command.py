import subprocess
import sys


def test_command_that_is_not_there_is_rejected_with_the_close_one(gathernest):
    ended = gathernest("bench", "comapre", "main")
    assert ended.status == 2
    assert "invalid choice: 'comapre'" in ended.err
    assert "did you mean 'compare'?" in ended.err


def test_help_of_a_command_imports_no_compiler():
    script = (
        "import sys; from gathernest.tools.cli import main; status = main(['bench', 'compare', '--help']); "
        "sys.exit(status or [name for name in ('numba', 'xdsl', 'rich') if name in sys.modules] or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
