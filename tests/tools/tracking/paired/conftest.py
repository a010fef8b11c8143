import itertools

import pytest

from gathernest.tools.tracking.paired import compare


@pytest.fixture
def eight_restarts(monkeypatch):
    """Have the time of `--budget 24s` pass with the questions for it, so that a busy machine has as many restarts."""
    passed = itertools.count()
    monkeypatch.setattr(compare, "clock", lambda: float(next(passed)))
