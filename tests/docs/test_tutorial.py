"""The tutorial runs, and its page has every cell with what it shows."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def make_page():
    place = ROOT / "docs" / "site" / "tutorial_page.py"
    spec = importlib.util.spec_from_file_location("tutorial_page", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.tutorial_page


@pytest.mark.thorough
def test_the_tutorial_runs_and_shows_each_part(make_page):
    page = make_page()
    assert [line for line in page.splitlines() if line.startswith("## ")][:5] == [
        "## 1. From the operator to machine code",
        "## 2. Your first schedule",
        "## 3. Why is it slow or fast?",
        "## 4. Your first pass",
        "## 5. Prove it",
    ]
    outputs = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert any(text.startswith("step 6, parallel(") for text in outputs)
    assert any(text.startswith("run-backwards{loop=indices} is wrong: access at") for text in outputs)
    assert any(re.match(r"run-backwards\{loop=indices\}: proved\n\n.*: refuted: ", text) for text in outputs)
    assert re.search(r"On this machine:.*[\d.]+ times as fast as the nest as it comes", page, re.DOTALL)


def test_a_page_has_text_code_and_outputs_in_order(make_page, tmp_path):
    notebook = tmp_path / "notebook.py"
    notebook.write_text(
        "import marimo\n\napp = marimo.App()\n\n\n"
        "@app.cell(hide_code=True)\ndef _(mo):\n    mo.md('''\n    # Title\n    ''')\n    return\n\n\n"
        "@app.cell\ndef _():\n    import marimo as mo\n\n    return (mo,)\n\n\n"
        "@app.cell\ndef _(mo):\n    @staticmethod\n    def f():\n        return '<3'\n\n"
        "    # why\n    mo.plain_text(f())\n    return\n\n\n"
        "@app.cell(hide_code=True)\ndef _(mo):\n    mo.md(f'{1 + 1} times')\n    return\n"
    )
    page = make_page(notebook)
    assert page.startswith("# Title\n\n```python\nimport marimo as mo\n```\n\n```python\n@staticmethod\ndef f():\n")
    assert "# why\nmo.plain_text(f())\n```\n\n```text\n<3\n```\n" in page
    assert page.count("```python") == 2 and re.search(r"<div>.*2 times.*</div>", page, re.DOTALL)


def test_a_cell_that_fails_is_an_error(make_page, tmp_path):
    notebook = tmp_path / "notebook.py"
    notebook.write_text("import marimo\n\napp = marimo.App()\n\n\n@app.cell\ndef _():\n    1 / 0\n    return\n")
    with pytest.raises(Exception, match="division by zero"):
        make_page(notebook)
