"""Measuring beside candidates that are made up: bytes first, then times in turn; nothing on how fast anyone is."""

import dataclasses
from functools import partial

import numpy as np
import pytest

from gathernest.kernels.host.knobs import knobs
from gathernest.tools.bench.cases import Case
from gathernest.tools.bench.measure import measure
from gathernest.tools.bench.peers import Gathernest, NumPy, Peer

ROWS = Case("rows", "rows", (20, 4), (7,))


class FakePeer(Peer):
    """Gathers by NumPy, and returns what it is told to do with the result."""

    name = "peer"

    def __init__(self, spoil=lambda result: result, rejects=None):
        self.spoil, self.rejects, self.seen = spoil, rejects, []

    def rejection(self, case):
        return self.rejects

    def variants(self, case, inputs):
        return {"take": [partial(self.take, inputs, number) for number in range(len(inputs.indices))]}

    def take(self, inputs, number):
        self.seen.append(number)
        return self.spoil(np.take(inputs.data, inputs.indices[number], axis=0))


def measured(*candidates, case=ROWS, rounds=1, new_results=False):
    return measure(case, [Gathernest(), *candidates], rounds=rounds, threads=1, new_results=new_results)


def test_everyone_is_timed_and_compared_with_gathernest():
    result = measured(NumPy(), FakePeer())
    assert list(result.median_us) == ["gathernest", "numpy", "peer"]
    assert list(result.ratios) == ["numpy", "peer"]
    assert all(value > 0 for value in (*result.median_us.values(), *result.ratios.values()))
    assert result.ways["gathernest"] == "kernel"
    assert result.ways["numpy"] in ("ndarray.take", "index")
    assert (result.wrong, result.rejected) == ({}, {})


def test_every_set_of_indices_is_compared_and_then_used_in_turn():
    peer = FakePeer()
    measured(peer)
    sets = len(ROWS.make().indices)
    assert peer.seen[: 2 * sets] == [*range(sets), *range(sets)]


def test_peer_that_gives_other_bytes_is_told_and_not_timed():
    def spoil(result):
        result[2, 3] += 1
        return result

    result = measured(FakePeer(spoil))
    assert result.wrong == {"peer": "take: gives other bytes at (2, 3) and 0 other places of 28"}
    assert list(result.median_us) == ["gathernest"]
    assert (result.best_peer, result.ratio) == (None, None)


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda result: result.astype(np.float64), "take: gives float64 of shape (7, 4) for float32 of shape (7, 4)"),
        (lambda result: result[1:], "take: gives float32 of shape (6, 4) for float32 of shape (7, 4)"),
        (lambda result: 1 // 0, "take: fails with ZeroDivisionError: integer division or modulo by zero"),
    ],
)
def test_what_else_can_be_wrong_is_told(spoil, text):
    assert measured(FakePeer(spoil)).wrong == {"peer": text}


def test_peer_that_cannot_be_prepared_is_told():
    class Broken(FakePeer):
        def variants(self, case, inputs):
            raise RuntimeError("no session\nof many lines")

    result = measured(Broken())
    assert result.wrong == {"peer": "fails with RuntimeError: no session"}


def test_way_that_is_wrong_leaves_the_others():
    class TwoWays(FakePeer):
        def variants(self, case, inputs):
            right = super().variants(case, inputs)["take"]
            return {"wrong": [lambda call=call: call() + 1 for call in right], "right": right}

    result = measured(TwoWays())
    assert result.ways["peer"] == "right"
    assert result.wrong["peer"].startswith("wrong: gives other bytes")
    assert "peer" in result.median_us


def test_way_that_was_fastest_in_the_trial_is_the_one_that_is_timed():
    class TwoWays(FakePeer):
        def variants(self, case, inputs):
            calls = super().variants(case, inputs)["take"]
            return {"slow": [lambda call=call: [call() for _ in range(500)][-1] for call in calls], "fast": calls}

    assert measured(TwoWays()).ways["peer"] == "fast"


def test_case_that_a_peer_rejects_is_not_asked_of_it():
    peer = FakePeer(rejects="has no such operator")
    result = measured(peer)
    assert result.rejected == {"peer": "has no such operator"}
    assert peer.seen == []


def test_threads_are_those_that_were_asked_for():
    class Asking(FakePeer):
        def take(self, inputs, number):
            threads.add(knobs.num_threads)
            return super().take(inputs, number)

    threads: set[int | None] = set()
    measured(Asking())
    assert threads == {1}


def test_fraction_is_the_bound_over_the_time():
    result = measured()
    assert result.bound is not None
    assert result.bound.time_us > 0
    assert result.of_bound == result.bound.time_us / result.median_us["gathernest"]


def test_bound_is_timed_in_the_same_rounds_and_is_no_peer():
    result = measured(FakePeer(), rounds=3)
    assert result.bound is not None
    assert {name: len(times) for name, times in result.bound.rounds_us.items()} == {"copy": 3, "random lines": 3}
    for figures in (result.median_us, result.rounds_us, result.ways):
        assert list(figures) == ["gathernest", "peer"]
    assert (list(result.ratios), result.best_peer) == (["peer"], "peer")


class IntoBoth(FakePeer):
    """Writes into a given result, or returns a new one."""

    name = "both"

    def variants(self, case, inputs):
        out = inputs.out if case.into == "out" else None
        return {"take": [partial(np.take, inputs.data, picks, 0, out, "clip") for picks in inputs.indices]}


class Allocating(FakePeer):
    name = "allocating"
    is_allocating = True


def test_new_results_are_timed_in_the_same_rounds_and_apart():
    result = measured(IntoBoth(), Allocating(), new_results=True, rounds=2)
    new = result.new
    assert new is not None and new.case.into == "new"
    for one in (result, new):
        assert list(one.ratios) == ["both", "allocating"]
        assert {name: len(times) for name, times in one.rounds_us.items()} == {
            "gathernest": 2,
            "both": 2,
            "allocating": 2,
        }
    assert new.rounds_us["both"] != result.rounds_us["both"]
    assert new.rounds_us["allocating"] == result.rounds_us["allocating"]  # it makes a new result anyway
    assert new.ways == {"gathernest": "kernel", "both": "take", "allocating": "take"}
    assert result.of_new_results is new


def test_new_results_with_other_bytes_are_told_and_not_timed():
    class Spoilt(IntoBoth):
        def variants(self, case, inputs):
            return FakePeer.variants(self, case, inputs) if case.into == "new" else super().variants(case, inputs)

    result = measured(Spoilt(lambda result: result + 1), new_results=True)
    assert (result.wrong, list(result.ratios)) == ({}, ["both"])
    assert result.new is not None and list(result.new.median_us) == ["gathernest"]
    assert result.new.wrong["both"].startswith("take: gives other bytes at (0, 0)")


def test_new_result_of_gathernest_is_not_the_given_one():
    for case in (ROWS, Case("sums", "gradient", (20, 4), (7,), "gather_grad")):
        inputs = case.make()
        (calls,) = Gathernest().variants(dataclasses.replace(case, into="new"), inputs).values()
        first, second = calls[0](), calls[0]()
        assert not any(np.shares_memory(first, other) for other in (second, inputs.out))
        assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("into", ["out", "new"])
def test_cost_of_a_call_is_measured_into_one_kind_of_result(into):
    case = Case("call", "call", (5, 4), (3,), into=into)
    result = measured(NumPy(), case=case, new_results=True)
    assert result.new is None
    assert result.of_new_results is (result if into == "new" else None)


def test_calls_and_gradients_have_no_bound():
    call = dataclasses.replace(ROWS, family="call")
    gradient = Case("sums", "gradient", (20, 4), (7,), "gather_grad")
    for case in (call, gradient):
        result = measured(case=case)
        assert (result.bound, result.of_bound) == (None, None)
        assert result.median_us["gathernest"] > 0
