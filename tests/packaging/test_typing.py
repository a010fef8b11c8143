"""What a type checker says of a user's file."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RIGHT = """import numpy as np
import gathernest as gn

table = np.zeros((5, 4), np.float32)
rows: np.ndarray = gn.gather(table, [0, 1], axis=0, bounds="zero")
kernel: gn.Kernel = gn.compile("gather", table, "3xi64", schedule=gn.Schedule.parse("vectorize-inner{lanes=8}"))
text: str = kernel.source
try:
    gn.load("model.onnx").run({"indices": rows})
except (gn.BoundsError, gn.ModelError) as error:
    print(error, gn.__version__, gn.ops["openvino.Gather-8"], gn.knobs.num_threads)
"""
WRONG = """import gathernest as gn

gn.gahter([1, 2], [0])
gn.gather([1, 2], [0], bounds="zeroo")
rows: str = gn.gather([1, 2], [0])
"""


def test_names_and_bounds_are_checked(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "gathernest").symlink_to(ROOT)
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    settings = {"include": ["*.py"], "extraPaths": ["site"], "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [
        (Path(entry["file"]).name, entry["range"]["start"]["line"] + 1, entry["rule"])
        for entry in json.loads(ended.stdout)["generalDiagnostics"]
        if entry["severity"] == "error" and not entry["rule"].startswith("reportUnknown")
    ]
    assert found == [
        ("wrong.py", 3, "reportAttributeAccessIssue"),
        ("wrong.py", 4, "reportArgumentType"),
        ("wrong.py", 5, "reportAssignmentType"),
    ]
