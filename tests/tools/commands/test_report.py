"""`gathernest report`: what it writes, and what it says of wrong command lines."""

import html.parser
import re

import pytest

ROWS = ("--data", "100x64xf32", "--indices", "10xi64")
QUICK = ("--schedule", "", "--no-timing")


class Text(html.parser.HTMLParser):
    """The text of a page."""

    def __init__(self, page):
        super().__init__()
        self.text = ""
        self.feed(page)

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def model(tmp_path):
    """Two nodes of one kernel, one of another, and one of strings, in sizes that are partly unknown."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    TensorProto, helper = onnx.TensorProto, onnx.helper
    tensor = helper.make_tensor_value_info
    inputs = [
        tensor("table", TensorProto.FLOAT, [500, 32]),
        tensor("tokens", TensorProto.INT64, ["batch", 4]),
        tensor("words", TensorProto.STRING, [9]),
    ]
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["one"], "<first>"),
        helper.make_node("Gather", ["table", "tokens"], ["two"], "second", axis=1),
        helper.make_node("Gather", ["one", "tokens"], ["three"], "third", axis=2),
        helper.make_node("Gather", ["words", "tokens"], ["four"], "strings"),
    ]
    kinds = {"one": TensorProto.FLOAT, "two": TensorProto.FLOAT, "three": TensorProto.FLOAT, "four": TensorProto.STRING}
    outputs = [tensor(name, kind, None) for name, kind in kinds.items()]
    proto = helper.make_model(
        helper.make_graph(nodes, "test", inputs, outputs), opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    onnx.save(proto, tmp_path / "model.onnx")
    return str(tmp_path / "model.onnx")


@pytest.mark.thorough
def test_one_command_writes_the_report_of_a_gather(gathernest, tmp_path):
    path = tmp_path / "report.html"
    ended = gathernest("report", *ROWS, "--bounds", "clip", "--schedule", "", "--no-timing", "-o", str(path))
    assert (ended.status, ended.err) == (0, "")
    said = re.fullmatch(r"(.*): (\d+) kB; (\d+) % of the work of the hot loops maps to the operator\n", ended.out)
    assert said[1] == str(path)
    assert int(said[3]) >= 95
    text = path.read_text(encoding="utf-8")
    assert int(said[2]) == round(len(text.encode()) / 1000)
    text = Text(text).text
    assert "gather 100x64xf32 by 10xi64, axis 0, batch_dims 0, bounds clip" in text
    assert "Timing was not asked for." in text


@pytest.mark.thorough
def test_each_kernel_of_a_model_has_a_section_and_other_nodes_are_listed(gathernest, model, tmp_path):
    path = tmp_path / "report.html"
    assert gathernest("report", model, *QUICK, "-o", str(path)).status == 0
    text = path.read_text(encoding="utf-8")
    assert text.count('<section class="gather"') == 2
    assert "<b>third</b> gather 128x4x32xf32 by 128x4xi64, bounds error" in text  # it runs the kernel of the second
    assert "&lt;first&gt;" in text
    assert "<first>" not in text
    assert "taken as 128" in text
    assert "gather 500x32xf32 by 128x4xi64" in text


@pytest.mark.thorough
def test_one_node_of_a_model_is_shown_and_the_others_are_listed(gathernest, model, tmp_path):
    path = tmp_path / "report.html"
    assert gathernest("report", model, "--node", "second", *QUICK, "-o", str(path)).status == 0
    text = path.read_text(encoding="utf-8")
    assert text.count('<section class="gather"') == 1
    assert "<b>third</b>" in text


@pytest.mark.thorough
def test_two_schedules_stand_side_by_side(gathernest, tmp_path):
    path = tmp_path / "two.html"
    other = "vectorize-inner{lanes=4}"
    ended = gathernest("report", *ROWS, "--schedule", "", "--against", other, "--no-timing", "-o", str(path))
    assert (ended.status, ended.err) == (0, "")
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) <= 1_000_000
    assert text.count('<section class="gather"') == 2
    assert "<b>vectorize-inner</b> only in B, vectorize-inner{lanes=4}" in text
    assert "<b>assembly</b> <ins>" in text


@pytest.mark.thorough
def test_named_schedules_stand_beside_the_first(gathernest, tmp_path):
    for name, text in (("a", ""), ("b", "vectorize-inner{lanes=8}")):
        (tmp_path / f"{name}.txt").write_text(text)
    named = [word for name in "ab" for word in ("--with", f"{name}={tmp_path / name}.txt")]
    path = tmp_path / "named.html"
    ended = gathernest("report", *ROWS, "--schedule", "", *named, "--no-timing", "-o", str(path))
    assert ended.status == 0, ended.err
    text = path.read_text()
    assert "A, without a schedule and a and b" in text and 'id="gather-2"' in text
    ended = gathernest("report", *ROWS, "--against-revision", "no-such", "--with", "c=nowhere.txt", "-o", str(path))
    assert (ended.status, "there is no revision 'no-such'" in ended.err) == (1, True)
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    ended = gathernest("report", *ROWS, "--with", f"c={tmp_path / 'latin.txt'}", "-o", str(path))
    assert (ended.status, "latin.txt: it is not UTF-8 text: " in ended.err) == (1, True)
    ended = gathernest("report", *ROWS, "--with", "c=nowhere.txt", "-o", str(path))
    assert (ended.status, "--with: expected NAME=FILE with a schedule" in ended.err) == (2, True)


@pytest.mark.thorough
def test_the_schedule_of_another_machine_stands_beside(gathernest, tmp_path):
    path = tmp_path / "two.html"
    ended = gathernest("report", *ROWS, "--against-machine", "avx2", "--no-timing", "-o", str(path))
    assert (ended.status, ended.err) == (0, "")
    text = path.read_text(encoding="utf-8")
    assert "B, the schedule for avx2" in text
    assert "Its schedule is the one for avx2; its code is compiled for this CPU, on which all times are." in text


def test_without_its_packages_it_says_what_to_install(gathernest, installed):
    installed("pygments", "2.17")
    ended = gathernest("report", *ROWS)
    assert ended.status == 1
    assert "pygments 2.17 is too old; gathernest needs 2.18 or newer: pip install 'gathernest[report]'\n" in ended.err
