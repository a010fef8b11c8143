"""Comparisons of a tiny package with itself and with slower ones, by the command line, and its misuse."""

import json

import pytest

QUICK = ("--case", "import,call-kernel", "--budget", "8s")


def compare(gathernest, *words):
    return gathernest("bench", "compare", *words)


@pytest.mark.thorough
def test_slower_call_is_found_beside_what_is_not_there(gathernest, repository, tmp_path, eight_restarts):
    repository.commit("slow", at_call="wait(400)")
    file = tmp_path / "compared.json"
    cases = ("--case", "call-kernel,pipeline,gradient-few-rows", "--budget", "24s")
    ended = compare(gathernest, "plain", "slow", *cases, "--json", str(file), "--markdown")
    assert ended.status == 1
    found = json.loads(file.read_text())
    call = found["benchmarks"]["call-kernel"]
    assert call["verdict"] == "slower"
    assert call["ratio"] > 1.5
    assert 1.01 < call["interval"][0] < call["ratio"] < call["interval"][1]
    assert len(call["log_ratios"]) == found["restarts"] >= 7
    assert found["head"] == {"revision": "slow", "commit": repository.git("rev-parse", "slow"), "changed_files": 0}
    assert found["missing"] == {
        "gradient-few-rows": "not there at base: ValueError: there is no gather_grad; "
        "not there at head: ValueError: there is no gather_grad",
        "pipeline": "not there at base: AttributeError: module 'gathernest' has no attribute 'knobs'; "
        "not there at head: AttributeError: module 'gathernest' has no attribute 'knobs'",
    }
    assert ended.out.startswith("### 1 slower: slow (")
    (line,) = call["why"]["lines"]
    assert line.startswith("__init__.py: ")  # `wait` is called beside the kernel
    assert "| call-kernel | call | " in ended.out
    assert "**slower**" in ended.out


@pytest.mark.thorough
def test_too_little_time_to_compile_and_for_restarts_is_said(gathernest, repository):
    (repository.folder / "__init__.py").write_text((repository.folder / "__init__.py").read_text() + "\n")
    ended = compare(gathernest, "plain", "--budget", "0.1s")
    assert ended.status == 3
    assert "gathernest: note: 25% of the --budget is for compiling, too little here for " in ended.err
    assert "1 cannot tell: the working tree (" in ended.out
    assert "gathernest: note: head is the working tree, with 1 file changed since " in ended.err
    assert "restarts are too few to tell, 6 are needed: give a --budget of 1m, or fewer --case\n" in ended.err


@pytest.mark.thorough
def test_revision_that_cannot_be_imported_is_misuse_in_one_line(gathernest, repository):
    repository.commit("broken", at_import="raise ImportError('no luck')")
    ended = compare(gathernest, "plain", "broken", *QUICK)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == "gathernest: error: nothing runs at head, broken: ImportError: no luck; name another revision\n"


def test_revision_that_ends_the_process_is_misuse_in_one_line(gathernest, repository):
    repository.commit(
        "exits", at_call="import os; print('bye', file=__import__('sys').stderr, flush=True); os._exit(3)"
    )
    ended = compare(gathernest, "plain", "exits", "--case", "call-kernel", "--budget", "5s")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == "gathernest: error: the process of head, exits, ended: bye; name another revision\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "there is no revision 'nowhere' in "),
        (("plain", "--case", "rows-256"), "no benchmark is called 'rows-256'; "),
        (("plain", "--budget", "soon"), "expected a time such as 90s, 2m or 1h, got 'soon'"),
        (("plain", "--json", "there/is/none.json"), "--json there/is/none.json: there is no folder there/is; "),
        (("plain", "--json", "-", "--markdown"), "--markdown and --json - both write to standard output"),
    ],
)
def test_misuse_is_one_line(gathernest, repository, words, said):
    ended = compare(gathernest, *words)
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1
