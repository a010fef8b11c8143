"""Every operator version says in its docstring what its document says, with an example that runs."""

import doctest
import inspect

import pytest

import gathernest as gn


@pytest.mark.parametrize("name", gn.ops)
def test_example_gives_what_it_shows(name):
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(gn.ops[name]), {"gn": gn}, name, None, 0)
    assert test.examples
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


@pytest.mark.parametrize("name", gn.ops)
def test_docstring_has_every_section(name):
    text = inspect.getdoc(gn.ops[name])
    sections = ("Args:", "Returns:", "Raises:", "Types:", "Differs:", "Example:", "Spec:")
    assert [section for section in sections if section not in text] == []
    assert [
        argument for argument in inspect.signature(gn.ops[name]).parameters if f"\n    {argument}:" not in text
    ] == []
