"""The table of the page on machine models is that of the built-in ones, and its file is a machine."""

import json
import re
from dataclasses import fields
from pathlib import Path

from gathernest.kernels.host.knobs import knobs
from gathernest.kernels.host.machine import known_machine
from gathernest.lowering.schedule.machine_model import BUILT_IN, MachineModel

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "machine.md").read_text()


def test_example_of_a_file_is_a_machine(tmp_path: Path) -> None:
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "machine.json").write_text(text)
    with knobs.scope(machine=tmp_path / "machine.json"):
        known = known_machine()
    assert (known.model.name, known.threads) == (json.loads(text)["name"], 16)


def test_table_has_every_field_with_the_numbers_of_the_built_in_models() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*?\|.*?\|.*?\|(.*)\|$", PAGE, re.MULTILINE)
    found = {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows}
    names = {field.name for field in fields(MachineModel)} - {"name"}
    assert found.keys() == names
    for name in names - {"threads"}:
        values = [getattr(model, name) for model in BUILT_IN.values()]
        groups = [value if isinstance(value, tuple) else (value,) for value in values]
        assert [tuple(map(float, cell.split(", "))) for cell in found[name]] == groups
