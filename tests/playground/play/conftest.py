import dataclasses

import pytest

from gathernest.playground.play import work
from gathernest.playground.play.settings import FIRST


@pytest.fixture(scope="session")
def plan():
    """The plan of the first gather of the playground."""
    return work.begin(FIRST).plan


@pytest.fixture(scope="session")
def made(plan):
    """Its stages."""
    return work.stages(plan)


@pytest.fixture
def edited(plan, made):
    """Return the settings with a stage in which a text is replaced."""

    def edit(stage, old, new):
        text = made[work.stage_names(made).index(stage)].text
        assert old in text
        return dataclasses.replace(FIRST, stage=stage, text=text.replace(old, new, 1))

    return edit
