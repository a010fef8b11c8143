"""The three tasks of CONTRIBUTING: in a copy of the tree, each patch there applies, and does what the page says."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("ir", "lowering", "kernels", "interop", "playground")
TRIES = {
    "Add a step of a schedule": """
        script = gn.schedule("gather", "9x4xf32", "3xi64").rename_loop("inner", "row")
        assert "for row(j) in" in script.nest, script.nest
        from gathernest.lowering.schedule.schedule import Schedule
        text = "rename-loop{loop=inner to=row}"
        assert str(Schedule.parse(text)) == text
        kernel = gn.compile("gather", "9x4xf32", "3xi64", schedule=text)
        data = np.arange(36, dtype="f4").reshape(9, 4)
        assert kernel(data, np.array([2, -1, 0])).tobytes() == data[[2, -1, 0]].tobytes()
        try:
            gn.schedule("gather", "9x4xf32", "3xi64").rename_loop("inner", "indices")
        except gn.ScheduleError as error:
            assert "rename a loop that the nest has, by a name that no other loop has" in str(error), error
        else:
            raise AssertionError("two loops have one name")
    """,
    "Add an index dtype": """
        import ml_dtypes
        assert gn.gather([1, 2], np.array([1, 0, -1], ml_dtypes.int4)).tolist() == [2, 1, 2]
    """,
    "Add an operator version": """
        assert gn.ops["onnx.Gather-99"]([[1, 2], [3, 4]], [0, -1], axis=1).tolist() == [[1, 2], [3, 4]]
        assert "as onnx.Gather-13." in gn.ops["onnx.Gather-99"].__doc__
    """,
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A folder with a copy of the package."""
    folder = tmp_path_factory.mktemp("copy")
    for path in (*FOLDERS, *(path.name for path in ROOT.glob("*.py*") if path.is_file())):
        place = folder / "gathernest" / path
        place.parent.mkdir(exist_ok=True)
        (shutil.copytree if (ROOT / path).is_dir() else shutil.copy)(ROOT / path, place)
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize("task", TRIES)
def test_task_of_contributing_is_done_by_its_patches(copy, program, task):
    page = (ROOT / "CONTRIBUTING.md").read_text()
    section = re.split(r"^\*\*|^## ", page[page.index(f"**{task}") + 2 :], flags=re.M)[0]
    patches = [textwrap.dedent(text) for text in re.findall(r"^ *```diff\n(.*?)^ *```", section, re.M | re.S)]
    assert patches
    for patch in patches:
        command = [program("patch"), "-p1", "--no-backup-if-mismatch"]
        done = subprocess.run(
            command, input=patch, text=True, capture_output=True, cwd=copy / "gathernest", check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    script = "import numpy as np\nimport gathernest as gn\n" + textwrap.dedent(TRIES[task])
    environment = os.environ | {"PYTHONPATH": str(copy), "GATHERNEST_COMPILE": "now"}
    ended = subprocess.run(
        [sys.executable, "-P", "-c", script], env=environment, capture_output=True, text=True, check=False, cwd=copy
    )
    assert ended.returncode == 0, ended.stderr
