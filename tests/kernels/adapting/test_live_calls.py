"""Adapting on real calls: the bytes stay the same while candidates race, in threads, in forks and at the exit."""

import itertools
import sys
import threading

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.adapting import adapter as adapters
from gathernest.kernels.adapting import budget, call_class, race
from gathernest.kernels.adapting.adapter import Adapter
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.runtime import call_cache
from gathernest.kernels.runtime.launch import available_threads
from gathernest.lowering.native.call_layout import Call, Way
from gathernest.lowering.schedule.schedule import Schedule

RNG = np.random.default_rng(0)
DATA = RNG.random((30, 6), np.float32)
INDICES = RNG.integers(-30, 30, 40)
CANDIDATE = Schedule.parse("tile-loops{loops=indices sizes=3}")
PAIRS = 2


@pytest.fixture
def adapting(monkeypatch, own_records):
    """An adapter without a budget, whose candidate races at once, in two pairs."""
    for module, name, value in (
        *((budget, "SHARE", 1e9), (call_class, "LEAST_SPENT_S", 0.0), (call_class, "SHORTEST_S", 0.0)),
        (call_class, "WORST_FIRST", 1e5),
        *((race, "PAIRS", PAIRS), (race, "MOST_LOSSES", PAIRS), (race, "LOST_AT_ONCE", 0)),
        (adapters, "next_candidates", lambda *arguments, **options: iter([CANDIDATE])),
    ):
        monkeypatch.setattr(module, name, value)
    made = Adapter(begin=lambda work: work())
    monkeypatch.setattr(adapters, "ADAPTER", made)
    gn.knobs.adapt = True
    yield made
    del gn.knobs.adapt


def outcomes(adapter: Adapter) -> list[tuple[str, str]]:
    return [(outcome.outcome, outcome.reason) for each in adapter.classes.values() for outcome in each.outcomes]


def calls():
    """Yield calls of every operator, each with its result by NumPy."""
    nd = np.stack([INDICES, RNG.integers(-6, 6, 40)], 1)
    along = RNG.integers(-30, 30, (40, 6))
    grad = RNG.random((40, 6)).astype(np.float32)
    into = np.zeros_like(DATA)
    np.add.at(into, INDICES, grad)
    into_nd, into_along = np.zeros_like(DATA), np.zeros_like(DATA)
    np.add.at(into_nd, tuple(nd.T), grad[:, 0])
    np.add.at(into_along, (along, np.arange(6)[None]), grad)
    yield lambda **more: gn.gather(DATA, INDICES, **more), DATA[INDICES]
    yield lambda **more: gn.gather_nd(DATA, nd, **more), DATA[tuple(nd.T)]
    yield lambda **more: gn.gather_elements(DATA, along, **more), np.take_along_axis(DATA, along, 0)
    yield lambda **more: gn.gather_grad(grad, INDICES, DATA.shape, **more), into
    yield lambda **more: gn.gather_nd_grad(grad[:, 0].copy(), nd, DATA.shape, **more), into_nd
    yield lambda **more: gn.gather_elements_grad(grad, along, DATA.shape, **more), into_along


@pytest.mark.thorough
def test_every_operator_gives_the_same_bytes_while_candidates_race(adapting):
    classes = 0
    for call, wanted in calls():
        for options in ({}, {"out": np.empty_like(wanted)}):
            classes += 1
            for _ in range(4 + 2 * PAIRS):
                if options:
                    options["out"][...] = 9
                assert call(**options).tobytes() == wanted.tobytes()
    assert len(adapting.classes) == classes
    assert outcomes(adapting) == [("lost", "")] * classes


def test_what_calls_take_beside_their_kernels_is_counted(adapting, monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(call_cache.time, "perf_counter", lambda: next(ticks))  # so that all takes long
    for _ in range(10):
        gn.gather(DATA, INDICES)
    assert outcomes(adapting) == [("lost", "")]
    assert adapting.budget.watching_s >= 3 * call_cache.LONGEST_BESIDE_S


def test_an_index_outside_is_reported_during_a_race_and_out_stays(adapting):
    out, bad = np.empty((40, 6), np.float32), INDICES.copy()
    bad[3] = 30
    for _ in range(5):
        gn.gather(DATA, INDICES, out=out)
        with pytest.raises(gn.BoundsError, match=r"index 30 at position \(3,\)"):
            gn.gather(DATA, bad, out=out)
        with pytest.raises(gn.BoundsError, match=r"index 30 at position \(3,\)"):
            gn.gather(DATA, bad)
        assert out.tobytes() == DATA[INDICES].tobytes()


def test_a_candidate_of_other_bytes_changes_no_result(adapting, monkeypatch):
    class Wrong:
        def run(self, data, indices, out):
            out[...] = 0

    found = []
    prepare = adapters.Adapter._prepared
    monkeypatch.setattr(adapters.Adapter, "_prepared", lambda *arguments: found.append(prepare(*arguments)) or Wrong())
    for strided in (np.empty((40, 6), np.float32), np.empty((40, 12), np.float32)[:, ::2]):
        for _ in range(6):
            assert gn.gather(DATA, INDICES, out=strided).tobytes() == DATA[INDICES].tobytes()
            assert gn.gather(DATA, INDICES).tobytes() == DATA[INDICES].tobytes()
    assert len(found) == 3
    assert outcomes(adapting) == [("failed", "it gives other bytes; please report it with the schedule")] * 3


def test_threads_that_call_at_once_get_the_right_bytes(adapting, monkeypatch):
    monkeypatch.setattr(race, "PAIRS", 100)
    monkeypatch.setattr(race, "MOST_LOSSES", 100)
    wanted, wrong = DATA[INDICES].tobytes(), []

    def work():
        for _ in range(400):
            if gn.gather(DATA, INDICES).tobytes() != wanted:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert [outcome for outcome, _ in outcomes(adapting)] in (["lost"], ["won"])


def test_calls_are_left_to_the_entry_when_a_class_is_over_and_when_the_knob_is_off(adapting):
    def finds_without_python() -> bool:
        """Whether machine code alone runs the call: it holds no watched kernel."""
        (remembered,) = call_cache.CALLS._calls.values()
        return remembered._call[Call.WAY] == Way.ALONE

    for _ in range(6):
        gn.gather(DATA, INDICES)
    assert not finds_without_python()
    for _ in range(6):
        gn.gather(DATA, INDICES)
    assert finds_without_python()
    with pytest.raises(gn.BoundsError, match="index 108 at position"):
        gn.gather(DATA, np.full(40, 108))
    adapting.classes.clear()
    RUNTIME.forget()
    gn.knobs.tuning = "off"  # what would be found has no place
    for _ in range(4):
        gn.gather(DATA, INDICES)
    assert adapting.classes == {}
    assert finds_without_python()


@pytest.mark.thorough
def test_large_calls_are_left_to_the_entry_when_a_class_is_over(adapting):
    data = RNG.random((5000, 64), np.float32)
    indices = RNG.integers(0, 5000, 20_000)
    for _ in range(20):
        assert gn.gather(data, indices).tobytes() == data[indices].tobytes()
    (remembered,) = call_cache.CALLS._calls.values()
    assert remembered._is_shared == (available_threads() > 1)
    assert remembered._call[Call.WAY] == (Way.SHARED if remembered._is_shared else Way.ALONE)


def test_a_race_goes_on_when_its_calls_are_forgotten_meanwhile(adapting):
    while not adapting.classes or next(iter(adapting.classes.values())).state != "racing":
        gn.gather(DATA, INDICES)
    for _ in range(1 + 2 * PAIRS):
        RUNTIME.forget()
        assert gn.gather(DATA, INDICES).tobytes() == DATA[INDICES].tobytes()
    assert outcomes(adapting) == [("lost", "")]
    (found,) = adapting.classes.values()
    assert found.state == "over"


def test_kernels_keep_the_schedule_that_they_show(adapting):
    kernel = gn.compile("gather", DATA, INDICES)
    for _ in range(6):
        assert kernel(DATA, INDICES).tobytes() == DATA[INDICES].tobytes()
    (found,) = adapting.classes.values()
    assert found.spent_s == 0.0
    for _ in range(6):
        gn.gather(DATA, INDICES)
    assert found.spent_s > 0.0


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork here")
def test_a_process_forks_and_ends_while_a_candidate_is_compiled(python, unnamed_machine):
    code = """
        import os, sys, time, numpy as np, gathernest as gn
        data, indices = np.ones((30, 6), np.float32), np.arange(30)
        for _ in range(3):
            gn.gather(data, indices)
        assert not any("adapting" in name for name in sys.modules)
        gn.knobs.adapt = True
        gn.gather(data, indices)
        from gathernest.kernels.adapting import adapter, budget, call_class
        budget.SHARE, call_class.LEAST_SPENT_S, call_class.SHORTEST_S = 1e9, 0.0, 0.0
        made = gn.Schedule.parse(f"tile-loops{{loops=indices sizes={os.getpid() % 20000 + 2}}}")
        adapter.next_candidates = lambda *arguments, **options: iter([made])
        (found,) = adapter.ADAPTER.classes.values()
        if os.fork() == 0:
            for _ in range(5):
                assert gn.gather(data, indices).tobytes() == data.tobytes()
            assert found.state == "over"
            os._exit(0)
        assert os.wait()[1] == 0
        assert found.state == "watched"
        gn.gather(data, indices)
        assert found.state != "watched"
        print("ends")
    """
    assert python(code, GATHERNEST_TUNING=f"{sys.prefix}/none.json").strip() == "ends"
