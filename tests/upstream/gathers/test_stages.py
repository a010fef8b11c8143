"""Upstream parses and verifies every stage of every gather, and what it prints of them is what we meant."""

import re

import pytest

from gathernest.ir.modules.context import parse_module, print_generic

ANY_DIALECT = "--allow-unregistered-dialect"


@pytest.fixture(scope="session")
def nest_errors(upstream, lowerings) -> dict[str, str]:
    """What upstream says against the stages with our dialect, in generic form; all of them in one process."""
    return upstream.check(_distinct(lowerings, "nests"), ANY_DIALECT)


@pytest.fixture(scope="session")
def loops_errors(upstream, lowerings) -> dict[str, str]:
    """What upstream says against the stages of upstream dialects as they are printed."""
    return upstream.check(_distinct(lowerings, "loops"), ANY_DIALECT)


@pytest.fixture(scope="session")
def strict_errors(upstream, lowerings) -> dict[str, str]:
    """The same without our attributes and without the flag."""
    return upstream.check(_distinct(lowerings, "strict"))


@pytest.fixture(scope="session", params=["nest", "loops"])
def printed(request, upstream, lowerings) -> dict[str, tuple]:
    """The last module of a level and what upstream prints of it, in generic form."""
    modules = {name: lowering.kept[request.param] for name, lowering in lowerings.items()}
    texts = {name: print_generic(module) for name, module in modules.items()}
    prints = upstream.print(texts, ANY_DIALECT, "--mlir-print-op-generic")
    return {name: (module, prints[name]) for name, module in modules.items()}


def _as_xdsl_knows_it(text: str) -> str:
    """Return upstream's text without two properties that xDSL lacks; the second is an attribute of ours."""
    text = re.sub(r'("arith.trunci"\(%\w+\)) <\{overflowFlags = #arith.overflow<none>\}>', r"\1", text)
    stream = r'("vector.store"\([^)]*\)) <\{alignment = (\d+) : i64, nontemporal = true\}>'
    return re.sub(stream, r"\1 <{nontemporal = true}> {alignment = \2 : i64}", text)


def _distinct(lowerings, group: str) -> dict[str, str]:
    """Return the texts of a group of stages, each once; a text is its own name."""
    return {text: text for lowering in lowerings.values() for _, text in getattr(lowering, group)}


def _rejected(stages: list[tuple[str, str]], errors: dict[str, str]) -> dict[str, str]:
    return {name: errors[text] for name, text in stages if text in errors}


def test_stage_with_our_dialect_is_accepted_in_generic_form(case, lowerings, nest_errors) -> None:
    nests = lowerings[case.name].nests
    assert [nests[0][0], nests[-1][0]] == ["operator", "hoist-invariants"]
    assert _rejected(nests, nest_errors) == {}


def test_loops_stage_is_accepted_as_printed(case, lowerings, loops_errors) -> None:
    loops = lowerings[case.name].loops
    assert [loops[0][0], loops[-1][0]] == ["lower-nest-to-loops", "cse"]
    assert _rejected(loops, loops_errors) == {}


def test_loops_stage_is_accepted_without_unregistered_dialects(case, lowerings, strict_errors) -> None:
    assert _rejected(lowerings[case.name].strict, strict_errors) == {}


def test_module_printed_by_upstream_reads_back_as_the_same(case, printed) -> None:
    module, text = printed[case.name]
    assert parse_module(_as_xdsl_knows_it(text)).is_structurally_equivalent(module)
