"""The page: its structure, what it says, and that nothing of it comes from elsewhere."""

import base64
import dataclasses
import hashlib
import html.parser
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import gathernest as gn
from gathernest.kernels.host.cpu import cpu_model
from gathernest.lowering.provenance.trace import Level, Line, Trace
from gathernest.playground import report as page_module
from gathernest.playground.levels import highlighted, level_views, origins
from gathernest.playground.report import MOST_BYTES, page
from gathernest.playground.sections import Figure, element_steps, figures, machine_figures, time_bars, worth_bars

ALONE = {"meta", "br"}
HOSTILE = "</script><script>alert('&')</script>"


class Page(html.parser.HTMLParser):
    """The elements of a page, as (tag, attributes, ids of the elements around it); raises where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements, self.open, self.texts = list[tuple[str, dict[str, str]]](), list[str](), list[str]()
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]


@pytest.fixture
def text(section) -> str:
    return page([section])


def test_each_line_of_a_changed_level_is_there_once(text, trace):
    wanted = [
        f"l{number}.{line}"
        for number, level in enumerate(trace.levels)
        for line in range(len(level.lines))
        if level.is_changed
    ]
    found = [name for name in Page(text).ids() if re.fullmatch(r"l\d+\.\d+", name)]
    assert sorted(found) == sorted(wanted)


def test_a_level_that_changed_nothing_is_only_named(text):
    page_ = Page(text)
    assert [each["data-level"] for each in page_.all("article")] == ["0", "2", "3", "4", "5"]
    assert {"data-level": "1", "class": "same", "title": "same: nothing changed"} in page_.all("span")


def test_nothing_is_loaded_and_only_our_script_runs(text):
    page_ = Page(text)
    assert not {"link", "img", "iframe", "object", "base"} & {tag for tag, _ in page_.elements}
    assert not [attributes for _, attributes in page_.elements if {"src", "onclick", "onload"} & set(attributes)]
    assert "@import" not in text
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (allowed,) = [each["content"] for each in page_.all("meta") if "http-equiv" in each]
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert allowed.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}'" in allowed


def test_names_of_models_are_text(text):
    assert "<script>alert" not in text
    assert "".join(Page(text).texts).count(HOSTILE) >= 3


def test_the_steps_of_an_element_are_there_where_there_are_any(text, section):
    said = " ".join("".join(Page(text).texts).split())
    for step in section.steps:
        assert " ".join(str(step).split()) in said
    assert "One element, step by step" not in page([dataclasses.replace(section, steps=None)])
    assert element_steps(gn.compile("gather", "4x3xf32", "0xi64").plan) is None


def test_the_origins_of_each_line_are_there_for_the_browser(text, trace):
    (stored,) = re.findall(r'<script type="application/json" class="origins">(.*?)</script>', text)
    levels = json.loads(stored)
    assert levels == origins(trace)
    assert levels[2] == [1, [0, 1, 1, 2]]
    assert levels[3] == [2, [[], 1, 2]]
    assert [level[0] for level in levels] == [None, 0, 1, 2, 3, 3]


def test_the_share_that_maps_and_the_same_code_are_stated(text, section, trace):
    assert "".join(Page(text).texts).count("(2 of 2)") == 1
    assert "the same instructions" in text
    other = page([dataclasses.replace(section, trace=dataclasses.replace(trace, same_code=False))])
    assert "other instructions" in other


def test_times_are_there_or_why_not(text, section, trace, explanation):
    assert f"{explanation.measured_us:,.1f} µs" in text
    assert "The fewest bytes" not in text
    untimed = page([dataclasses.replace(section, explanation=None, not_timed="Timing was not asked for.")])
    assert "Timing was not asked for." in untimed
    assert "The fewest bytes" in untimed


def test_a_pass_that_runs_twice_has_two_names(trace):
    twice = dataclasses.replace(
        trace, levels=(*trace.levels[:3], dataclasses.replace(trace.levels[2], name="lower{to=x}"))
    )
    assert [view.title for view in views(twice)][2:] == ["lower", "lower#2"]


def views(trace):
    return level_views(trace, lambda lines, kind: list(lines))


def test_the_hot_loop_is_first_and_what_is_in_no_loop_is_folded(trace):
    hot, rest = views(trace)[5].parts
    assert (hot.is_hot, [line.number for line in hot.lines]) == (True, [2, 3, 4, 5])
    assert (rest.is_folded, [line.number for line in rest.lines]) == (True, [0, 1, 6])
    assert [line.kind for line in hot.lines] == ["", "load", "store", ""]


def test_lines_that_a_pass_made_are_marked_and_new_numbers_are_no_change(trace):
    lowered = views(trace)[2]
    assert [line.is_new for part in lowered.parts for line in part.lines] == [True] * 4
    before, after = (
        dataclasses.replace(trace.levels[number], lines=(Line("%0 = a"), *lines))
        for number, lines in ((0, (Line("b"),)), (2, (Line("c"),)))
    )
    renamed = dataclasses.replace(after, origin=0, lines=(Line("%12 = a"), Line("c")))
    view = views(dataclasses.replace(trace, levels=(before, renamed)))[1]
    assert [line.is_new for line in view.parts[0].lines] == [False, True]
    assert (view.added, view.removed) == (1, 1)


@pytest.mark.parametrize(
    ("kind", "line", "wanted"),
    [
        ("stage", "%0 = arith.addi %a : i64 // <", "<i class=v>%0</i> = <i class=k>arith.addi</i> "),
        ("source", "for i in range(3):", "<i class=k>for</i> i"),
        ("llvm", "  ret void", "<i class=k>ret</i>"),
        ("assembly", "vmovups (%rax), %ymm0", "(<i class=v>%rax</i>)"),
    ],
)
def test_text_is_coloured_and_stays_the_same(kind, line, wanted):
    texts = [line, "", "<&>\v", "end"]
    found = highlighted(texts, kind)
    assert wanted in found[0]
    assert len(found) == len(texts)
    assert ["".join(Page(each).texts) for each in found] == texts


@pytest.fixture
def fits(monkeypatch):
    """Return a function that makes the page of sections where it may not be larger than so many characters."""

    def make(sections, characters):
        monkeypatch.setattr(page_module, "MOST_BYTES", characters)
        return page(sections)

    return make


@pytest.mark.thorough
def test_a_large_report_loses_its_colours_then_its_last_gathers(section, trace, fits):
    level = trace.levels[4]
    many = dataclasses.replace(level, lines=(Line("  %a = load i64, ptr %b, align 8", (1,)),) * 300)
    large = dataclasses.replace(trace, levels=(*trace.levels[:4], many, trace.levels[5]))
    sections = [dataclasses.replace(section, trace=large, name=f"gather {number}") for number in range(3)]
    whole = len(page(sections[:1]))
    text = fits(sections, whole + 1000)
    assert text.count('<section class="gather"') < 3
    assert text.count("<b>gather 2</b>") == 1
    assert "<i class=k>load</i>" not in fits(sections[:1], whole - 100)


@pytest.mark.thorough
def test_the_report_of_a_kernel_is_under_the_bound_and_maps_its_hot_loops():
    text = gn.compile("gather", "100x64xf32", "10xi64").report(timing=False)
    page_ = Page(text)
    assert len(text.encode()) <= MOST_BYTES
    mapped, of = map(int, re.search(r"\((\d+) of (\d+)\)", "".join(page_.texts)).groups())
    assert mapped >= 0.95 * of > 0
    assert len(page_.all("svg")) >= 2


def test_the_drawings_of_a_timed_gather_say_where_it_was_timed(explanation):
    kernel = gn.compile("gather", "100x64xf32", "10xi64")
    nothing = Trace((Level("source", "source", (), None),), same_code=True)
    drawn = {figure.title: figure for figure in figures(kernel.plan, nothing, explanation)}
    assert cpu_model() in drawn["Bytes and time"].caption
    (worth,) = drawn["What each pass is worth"].bars
    assert worth.rows[1][1:3] == (None, "not legal: no & never")


def test_bars_are_as_long_as_their_values_and_text_is_escaped(section, explanation):
    figure = Figure("Bars", "", bars=(time_bars(explanation), worth_bars(explanation)))
    text = page([dataclasses.replace(section, figures=(figure,))])
    assert 'class="measured" style="width:100.0%"' in text  # 6 µs, the longest
    assert 'class="bound" style="width:33.3%"' in text  # the copy: 2 µs
    assert 'class="mark" style="left:50.0%" title="roofline bound: 3.00 µs"' in text
    assert "not legal: no &amp; never" in text


def test_an_analysis_that_fails_says_why(section, trace, install):
    install("llvm-mca", "echo no >&2; exit 1", version="LLVM version 22.1.8")
    (figure,) = machine_figures(trace)
    assert figure.caption.startswith("There is no analysis: ")
    install("llvm-mca", "echo 'cycles < 7'", version="LLVM version 22.1.8")
    text = page([dataclasses.replace(section, figures=tuple(machine_figures(trace)))])
    assert re.search(r'<pre class="printed">llvm-mca for .*\n(.*\n)*cycles &lt; 7\n</pre>', text)


@pytest.mark.parametrize(
    ("measured_us", "fastest_us", "said"),
    [(6.0, 5.0, ""), (6.0, 3.0, "the median is far above"), (2.0, 2.0, "the kernel is faster than the bound")],
)
def test_a_busy_machine_is_named_before_the_share_of_the_bound(section, explanation, measured_us, fastest_us, said):
    timed = dataclasses.replace(explanation, measured_us=measured_us, fastest_us=fastest_us)
    text = page([dataclasses.replace(section, explanation=timed)])
    assert ("and times say little</b>" in text) == bool(said)
    assert said in text and said in str(timed)


@pytest.mark.thorough
def test_a_package_in_a_zip_file_makes_a_page(tmp_path):
    folder = Path(gn.__file__).parent
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as packed:
        for room in ("ir", "lowering", "kernels", "interop", "playground", "*.py"):
            for file in (each for found in folder.glob(room) for each in (found, *found.rglob("*.*"))):
                packed.write(file, Path("gathernest") / file.relative_to(folder))
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path / "packed.zip")!r})
import gathernest as gn
assert ".zip" in gn.__file__
print(gn.compile("gather", "9x4xf32", "3xi64").report(timing=False)[-8:])
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout.strip() == "</html>", ended.stderr
