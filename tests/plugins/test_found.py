"""Passes and operations of other packages: where they are known, and what is said of packages with faults."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.modules import plugins
from gathernest.ir.modules.context import parse_module
from gathernest.ir.modules.pseudocode import print_loop_nest
from gathernest.kernels.runtime.disk_cache import entry_folder
from gathernest.lowering import registry
from gathernest.lowering.pipeline import parse_passes
from gathernest.lowering.registry import all_passes
from gathernest.playground.drawings import nest_drawing
from gathernest.tools import cli

EMPTY = "func.func @f() { func.return }\n"
TOUCH = "func.func @f() {\n  %x = own.touch : i64\n  func.return\n}\n"
BROKEN = "import a_module_that_is_not_there\n"
AROUND = """
from xdsl.dialects.builtin import i64
from xdsl.ir import Dialect
from xdsl.irdl import *
from xdsl.traits import NoTerminator
from xdsl.universe import Universe


@irdl_op_definition
class NumberOp(IRDLOperation):
    name = "around.number"
    res = result_def(i64)
    assembly_format = "attr-dict `:` type($res)"


@irdl_op_definition
class BodyOp(IRDLOperation):
    name = "around.body"
    of = operand_def(i64)
    body = region_def()
    traits = traits_def(NoTerminator())
    assembly_format = "`(` $of `)` $body attr-dict"


UNIVERSE = Universe(all_dialects={{"around": lambda: Dialect("around", [NumberOp, BodyOp], [])}})
"""


@pytest.fixture(autouse=True)
def _forget_sources():
    registry._version_and_source.cache_clear()
    yield
    registry._version_and_source.cache_clear()


def test_a_pass_of_another_package_is_known_by_name(install, gathernest_opt):
    install("another")
    assert "own-pass" in all_passes()
    assert [str(step) for step in parse_passes("own-pass{size=3}")] == ["own-pass{size=3}"]
    status, out, err = gathernest_opt("-p", "own-pass{size=2},cse", "--print-between-passes", stdin=EMPTY)
    assert (status, err) == (0, "")
    assert "own-pass{size=2}" in out


def test_the_list_of_passes_names_the_package(install, gathernest_opt):
    install("another")
    install("broken", source=BROKEN)
    out = gathernest_opt("--list-passes")[1]
    assert "Passes of another 1.5 (entry point another = another:UNIVERSE):\n  own-pass               Do nothing" in out
    assert "Passes of broken 1.5 (entry point broken = broken:UNIVERSE):\n  the package broken 1.5" in out


def test_the_list_of_passes_says_which_names_are_taken(install, gathernest_opt):
    install("another", source=UNIVERSE_OF_OURS)
    out = gathernest_opt("--list-passes")[1]
    assert "  own-pass               cannot be used: the pass 'own-pass' is of another 1.5" in out
    assert "  tile-loops             not used: gathernest or xDSL has this name" in out


def test_the_stages_of_a_kernel_say_what_the_pass_does(install, capsys):
    install("another")
    words = "show", "--data", "9x4xf32", "--indices", "5xi64"
    assert cli.main([*words, "--schedule", "own-pass{size=2}"]) == 0
    assert re.search(
        r"^own-pass +\d+ ops  \(changed nothing\) Do nothing, or fail\.$", capsys.readouterr().out, re.MULTILINE
    )


def test_a_misspelt_pass_of_another_package_is_suggested(install, gathernest_opt):
    install("another")
    status, _, err = gathernest_opt("-p", "own-pas", stdin=EMPTY)
    assert (status, err) == (1, "gathernest-opt: error: there is no pass 'own-pas'; did you mean 'own-pass'?\n")


def test_operations_of_another_package_are_read(install, gathernest_opt):
    install("another")
    assert "own.touch : i64" in str(parse_module(TOUCH))
    assert gathernest_opt(stdin=TOUCH)[0] == 0


def test_a_pass_that_two_packages_have_is_rejected(install):
    install("another")
    install("other")
    with pytest.raises(gn.ScheduleError, match=r"'own-pass' is registered by another 1.5 \(.*\) and by other 1.5 \(.*"):
        parse_passes("own-pass")


def test_a_package_with_a_pass_of_ours_is_rejected_and_ours_runs(install):
    install("another", source=UNIVERSE_OF_OURS)
    (step,) = parse_passes("tile-loops{loops=indices sizes=4}")
    assert type(step).__module__.startswith("gathernest.")
    with pytest.raises(
        gn.ScheduleError, match=r"'own-pass' is of another 1.5 .* registers 'tile-loops', too, as gather"
    ):
        parse_passes("own-pass")


UNIVERSE_OF_OURS = """
from xdsl.universe import Universe

UNIVERSE = Universe(all_passes={{"own-pass": None, "tile-loops": None}})
"""


@pytest.mark.parametrize("words", [("-p", "own-pass"), ("-p", "own-pass", "--traceback")])
def test_a_package_that_fails_to_import_is_named(install, gathernest_opt, words):
    install("broken", source=BROKEN)
    status, _, err = gathernest_opt(*words, stdin=EMPTY)
    assert status == 1
    assert err.endswith(
        "gathernest-opt: error: there is no pass 'own-pass'; the package broken 1.5 (entry point broken = "
        "broken:UNIVERSE) cannot be imported: ModuleNotFoundError: No module named 'a_module_that_is_not_there'; "
        "repair it, or remove it with pip uninstall broken\n"
    )
    assert ("import a_module_that_is_not_there" in err) == ("--traceback" in words)
    assert ("Traceback" in err) == ("--traceback" in words)


def test_an_operation_that_a_broken_package_may_have_names_it(install, gathernest_opt):
    install("broken", source=BROKEN)
    status, _, err = gathernest_opt(stdin=TOUCH)
    assert status == 1
    assert "<stdin>:2:8: Operation own.touch is not registered; the package broken 1.5" in err


def test_a_pass_that_fails_to_import_is_named(install):
    install("another", source="from xdsl.universe import Universe\nUNIVERSE = Universe(all_passes={{'own-pass': 1}})\n")
    with pytest.raises(gn.ScheduleError, match=r"'own-pass' cannot be loaded: the package another 1.5 .*: TypeError"):
        parse_passes("own-pass")


def test_a_pass_that_fails_names_its_package(install, gathernest_opt):
    install("another")
    status, _, err = gathernest_opt("-p", "own-pass{size=0}", stdin=EMPTY)
    assert status == 1
    assert err.startswith(
        "gathernest-opt: error: <stdin>: pass own-pass: failed: AssertionError: no size; it is a pass of another 1.5 "
    )


def test_our_own_pipelines_and_calls_import_no_other_package(monkeypatch, gathernest_opt):
    monkeypatch.setattr(plugins, "plugins", lambda: pytest.fail("packages were looked for"))
    assert gathernest_opt("-p", "nest,cse", stdin=EMPTY)[0] == 0
    data = np.arange(12.0).reshape(4, 3)
    for schedule in (None, "tile-loops{loops=indices sizes=2}"):
        kernel = gn.compile("gather", data, [3, 1, 1], schedule=schedule)
        assert (kernel(data, [3, 1, 1]) == data[[3, 1, 1]]).all()


def test_any_source_of_the_package_decides_the_entry_of_a_kernel(install):
    home = install("another")
    before = entry_folder("key", "own-pass,default")
    assert entry_folder("key", "default") != before
    registry._version_and_source.cache_clear()
    assert entry_folder("key", "own-pass,default") == before
    registry._version_and_source.cache_clear()
    (home / "sizes.py").write_text("SIZE = 2\n")
    assert entry_folder("key", "own-pass,default") != before


def test_a_schedule_has_passes_of_other_packages_last(install):
    install("another")
    text = "tile-loops{loops=indices sizes=4},own-pass{size=2}"
    schedule = gn.Schedule.parse(text)
    assert str(schedule) == text
    assert gn.Schedule.parse(str(schedule)) == schedule
    kernel = gn.compile("gather", "20x4xf32", "9xi64", schedule=schedule)
    assert "tile-loops{loops=indices sizes=4},own-pass{size=2},hoist-invariants," in kernel.pipeline
    assert "own-pass" in kernel.stages
    with pytest.raises(gn.ScheduleError, match=r"a schedule has each pass once, .* in the order specialize-inner"):
        gn.Schedule.parse("own-pass,tile-loops{loops=indices sizes=4}")


def test_a_pass_of_another_package_is_a_step_of_a_script(install):
    install("another")
    script = gn.schedule("gather", "4x30xf32", "20xi64")
    script.tile("indices", 8)
    script.apply("own-pass{size=2}")
    assert script.calls[1] == 'apply("own-pass{size=2}")'
    assert script.schedule == gn.Schedule.parse("tile-loops{loops=indices sizes=8},own-pass{size=2}")
    assert "own-pass{size=2}" in script.compile().pipeline
    text, passes = script.to_transform(), script.passes
    assert script.undo().undo().from_transform(text).passes == passes
    with pytest.raises(gn.ScheduleError, match="own-pass failed: AssertionError: no size"):
        script.apply("own-pass{size=0}")
    assert script.passes == passes


def test_operations_of_another_package_are_drawn_by_their_names(install):
    install("another", source=AROUND)
    inner = "%n = around.number : i64\naround.body(%n) {\naround.number : i64\n}\n"
    loop = f'gather.loop "rows"(%i) = %c to %c step %c {{\n{inner}}}\n'
    text = f"func.func @gather() {{\n%c = arith.constant 1 : index\n{loop}func.return\n}}"
    nest = "for rows(i) in 1..1:\n  n = around.number()\n  around.body(n):\n    value = around.number()\n"
    assert print_loop_nest(parse_module(text)) == nest
    drawn = list(ElementTree.fromstring(nest_drawing(text)).itertext())
    assert {"n = around.number()", "around.body(n)", "value = around.number()"} <= set(drawn)


def test_a_schedule_without_its_package_says_which_pass_is_unknown():
    with pytest.raises(gn.ScheduleError, match="'own-pass' is not a pass of a schedule; use specialize-inner, "):
        gn.Schedule.parse("own-pass{size=2}")


def test_an_explanation_leaves_out_each_pass_of_another_package(install):
    install("another")
    found = gn.compile("gather", "20x4xf32", "9xi64", schedule="own-pass{size=2}").explain(rounds=1)
    assert [each.left_out for each in found.ablations] == ["own-pass{size=2}"]
