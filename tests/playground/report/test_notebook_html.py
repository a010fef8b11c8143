"""What notebooks show of kernels, stages, schedules and explanations: well-formed, escaped, static HTML."""

import html.parser

import pytest

import gathernest as gn
from gathernest.lowering import static_html

ALONE = {"br", "meta"}


class Page(html.parser.HTMLParser):
    """The text and the tags of a page; raises where a tag ends that was not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.tags, self.text = list[str](), list[str](), ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in ALONE:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def kernel() -> gn.Kernel:
    return gn.compile("gather", "1000x64xf32", "100xi64", bounds="clip")


def test_a_kernel_shows_its_gather_its_schedule_and_its_source(kernel):
    page = Page(kernel._repr_html_())
    assert page.text.startswith("gathernest kernel: gather 1000x64xf32 by 100xi64")
    assert str(kernel.schedule).replace(",", ", ") in page.text
    assert kernel.source.rstrip() in page.text
    assert "script" not in page.tags


def test_a_kernel_of_a_pipeline_shows_that(kernel):
    given = gn.compile("gather", "1000x64xf32", "100xi64", pipeline=kernel.pipeline)
    assert f"pipeline{kernel.pipeline.replace(',', ', ')}" in Page(given._repr_html_()).text


def test_stages_are_a_dict_that_shows_changed_stages_once(kernel):
    stages = kernel.stages
    assert isinstance(stages, dict)
    page = Page(stages._repr_html_())
    assert "normalize-gather: nothing changed" in page.text
    changed = list(dict.fromkeys(text.rstrip() for text in stages.values()))
    assert page.tags.count("pre") == len(changed)
    assert all(text in page.text for text in changed)


def test_a_schedule_shows_a_line_for_each_pass():
    text = "tile-loops{loops=indices sizes=64},parallelize-loops{loops=indices_o}"
    assert text.replace("},", "}\n") in Page(gn.Schedule.parse(text)._repr_html_()).text
    assert "one thread" in Page(gn.Schedule()._repr_html_()).text


def test_a_script_shows_its_steps_its_nest_and_how_to_repeat_it():
    script = gn.schedule("gather", "1000x64xf32", "100xi64")
    assert "no step yet" in script._repr_html_()
    script.tile("indices", 64)
    page = Page(script._repr_html_())
    assert 'tile("indices", 64)' in page.text
    assert script.nest.rstrip() in page.text
    assert script.trace.rstrip() in page.text


def test_an_explanation_shows_each_part_of_its_text(explanation):
    page = Page(explanation._repr_html_())
    assert page.text.startswith(explanation.gather)
    for title, lines in explanation.sections().items():
        assert title in page.text
        assert "\n".join(lines) in page.text


def test_text_is_escaped():
    hostile = "<script>alert('&')</script>"
    parts = static_html.code(hostile), static_html.table([(hostile, hostile)]), static_html.paragraph(hostile)
    page = Page(static_html.fragment(hostile, *parts, static_html.fold(hostile)))
    assert page.text.count(hostile) == 6
    assert "script" not in page.tags
