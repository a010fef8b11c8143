"""Options of `gathernest bench` that do not go together."""

import pytest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--list", "--regret"), "--list and --regret print different things; choose one of them"),
        (("--static", "--list"), "--list and --static print different things; choose one of them"),
        (("--regret", "--store"), "--store is for the suite beside peers; leave out --store or --regret"),
        (("--regret", "--peers", "torch"), "--peers is for the suite beside peers; leave out --peers"),
        (("--list", "--quick"), "--quick is for the suite beside peers or --regret; leave out --quick or --list"),
        (("--candidates", "3"), "--candidates is for --regret; add it, or leave --candidates out"),
    ],
)
def test_an_option_that_would_change_nothing_is_an_error(gathernest, words, said):
    ended = gathernest("bench", *words)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith(f"gathernest: error: {said}")
