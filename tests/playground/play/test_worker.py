import dataclasses
import importlib
import os
import tempfile
import threading
from pathlib import Path

import pytest

from gathernest.playground.play import server
from gathernest.playground.play.settings import FIRST, Settings
from gathernest.playground.play.work import Worker, begin, machine_code, stages

SMALL = Settings(data="50x8xf32", indices="30xi64", bounds="wrap", steps='tile("indices", 8)\n')


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    """Return a worker in whose process another package prints a line."""
    folder, worker = tmp_path_factory.mktemp("site"), Worker()
    (folder / "sitecustomize.py").write_text("print('a line')")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield worker
    worker.stop()


def edited(old, new):
    """Return the settings with the last stage edited."""
    text = stages(begin(SMALL).plan)[-1].text
    assert old in text
    return dataclasses.replace(SMALL, stage="15-cse", text=text.replace(old, new, 1))


def found_by(parts):
    return {name: value for part in parts for name, value in part.items()}


def test_the_kernel_is_compiled_timed_and_compared(worker):
    found = found_by(worker.ask(SMALL))
    assembly = found["assembly"]
    assert "gather:" in assembly and any(line.startswith("ret") for line in assembly)
    assert found["hot_loops"][0]["name"] == "inner"
    assert all("%" in assembly[loop["lines"][1]] for loop in found["hot_loops"])
    assert found["time_us"] > 0 and found["rounds"] == 9 and found["threads"] == 1
    assert found["is_compared"] and found["difference"] is None


@pytest.mark.thorough
def test_a_crash_is_told_and_the_next_request_is_answered(worker):
    far = edited("arith.index_cast %wrapped : i64 to index", "arith.constant 1000000000000000 : index")
    assert "the process that ran the kernel ended by signal" in found_by(worker.ask(far))["error"]
    assert "time_us" in found_by(worker.ask(SMALL))


def test_nothing_is_asked_when_the_answer_is_not_wanted_any_more(worker):
    assert list(worker.ask(SMALL, is_stale=lambda: True)) == []


HANGING = """
import threading

def hang_on_explanations(requests):
    while True:
        explains, *_ = requests.recv()
        requests.send({"explanation": "begun"} if explains else {"assembly": []})
        requests.send(None) if not explains else threading.Event().wait()
"""


ENDING = """
import os
import tempfile

def end_by_a_signal(requests):
    _, _, tempfile.tempdir = requests.recv()
    tempfile.mkdtemp()
    os.abort()
"""


@pytest.mark.parametrize(("text", "why"), [("", "there may be too little memory"), ("edited", "an edited stage that")])
def test_a_process_that_ends_leaves_no_files_and_the_message_says_what_may_have_done_it(
    tmp_path, monkeypatch, text, why
):
    (tmp_path / "ending.py").write_text(ENDING)
    (tmp_path / "files").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "files"))
    worker = Worker(importlib.import_module("ending").end_by_a_signal)
    (part,) = worker.ask(dataclasses.replace(SMALL, text=text))
    assert part["error"].startswith(f"the process that ran the kernel ended by signal 6; {why}")
    assert not list((tmp_path / "files").iterdir())


def test_an_explanation_that_is_stale_gives_way(tmp_path, monkeypatch):
    (tmp_path / "hanging.py").write_text(HANGING)
    monkeypatch.syspath_prepend(tmp_path)  # the process has the paths of this one
    worker = Worker(importlib.import_module("hanging").hang_on_explanations)
    stale, errors = threading.Event(), []
    asked = worker.ask(SMALL, explain=True, is_stale=stale.is_set)
    assert next(asked) == {"explanation": "begun"}
    explaining = threading.Thread(target=lambda: errors.extend(asked))
    explaining.start()
    stale.set()
    assert list(worker.ask(SMALL)) == [{"assembly": []}]
    explaining.join()
    assert "ended by signal 9" in errors[0]["error"]
    worker.stop()


def test_an_edit_that_changes_the_result_is_told():
    found = found_by(machine_code(edited("arith.addi %remainder, %shift", "arith.andi %remainder, %shift")))
    assert "of the result it must give" in found["difference"]


def test_an_edit_that_does_not_parse_is_told():
    assert "arith.addu is not registered" in found_by(machine_code(edited("arith.addi", "arith.addu")))["error"]


@pytest.mark.draw(1)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dataclasses.replace(SMALL, indices="0xi64"), "nothing of it runs at these sizes"),
        (dataclasses.replace(FIRST, steps="tile()"), "Line 1 of the steps: tile(): tile: missing a required argument"),
        (dataclasses.replace(SMALL, axis=7), "The gather: axis 7 is out of range"),
    ],
)
def test_settings_without_a_kernel_say_why(settings, message):
    assert found_by(machine_code(settings))["error"].startswith(message)


def test_files_of_pages_go_with_the_server():
    with server._in_own_folder():
        left = Path(tempfile.mkdtemp())
        assert left.is_dir()
    assert not left.exists() and left.parent != Path(tempfile.gettempdir())
