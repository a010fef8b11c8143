"""What probes read, and in which order."""

import pytest

from gathernest.kernels.calibration import probes
from gathernest.kernels.calibration.probes import Workplace
from gathernest.kernels.calibration.samples import Timer


@pytest.fixture
def workplace(monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """A workplace of 32 MB, none of which fits in the caches; a probe calls its loop once, and times nothing."""

    def called(call, units, runs=5, warm=1) -> Timer:
        return lambda: call() or 0.0

    monkeypatch.setattr(probes, "timed", called)
    return Workplace.of(8 * probes.READ_ELEMENTS * probes.LINE_BYTES, warmed_bytes=0)


@pytest.mark.thorough
def test_probes_of_the_same_places_go_on_where_the_one_before_has_ended(workplace, monkeypatch):
    windows: list[tuple[int, ...]] = []
    monkeypatch.setattr(probes.LoopCall, "__call__", lambda call: windows.append(next(call.windows)))
    table_bytes, lines = len(workplace.memory), probes.READ_LINES
    for far in (32, 64, 128):
        workplace.lines(table_bytes, far, 0).run()
    assert [window[2:] for window in windows] == [(first, first + lines) for first in (0, lines, 2 * lines)]
    workplace.lines(table_bytes, 4, 0, probes.ROW_LINES).run()
    assert windows[-1][2] == 0  # other places


@pytest.mark.thorough
def test_probes_of_elements_take_turns_as_well(workplace):
    workplace._entry = lambda at, *numbers: numbers[1]  # the address of the indices
    every = workplace.elements(len(workplace.memory))
    assert len({probe.run() for probe in every.values()}) == len(every)
