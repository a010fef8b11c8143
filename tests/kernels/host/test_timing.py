import itertools

from gathernest.kernels.host.timing import Timings, find_fastest, time_interleaved


def test_interleaved_calls_take_turns_and_each_begins_in_turn() -> None:
    seen: list[str] = []
    timings = time_interleaved({name: lambda name=name: seen.append(name) for name in "ab"}, rounds=3, shortest_s=0)
    assert seen[-6:] == list("abbaab")
    assert [len(times) for times in timings.rounds_s.values()] == [3, 3]


def test_short_calls_are_repeated_until_a_round_is_long_enough() -> None:
    count = [0]

    def call() -> None:
        count[0] += 1

    timings = time_interleaved({"call": call}, rounds=1, shortest_s=0.001)
    assert count[0] > 100
    assert 0 < timings.median_s("call") < 0.001


def test_the_ratio_is_taken_within_the_rounds_so_that_a_slow_round_does_not_count() -> None:
    timings = Timings({"ours": [1.0, 10.0, 1.0], "theirs": [2.0, 20.0, 2.0]})
    assert timings.ratio("ours", "theirs") == 2.0
    assert timings.median_s("theirs") == 2.0


def test_settling_makes_calls_of_the_same_candidate_before_each_turn() -> None:
    seen: list[str] = []
    candidates = {name: lambda name=name: seen.append(name) for name in "ab"}
    time_interleaved(candidates, rounds=2, shortest_s=0, settle_s=1e-6)
    turns = [name for name, _ in itertools.groupby(seen)]
    assert turns[-3:] == list("aba") and len(seen) > 8


def test_the_fastest_call_is_found_for_the_work_of_each() -> None:
    def wait() -> None:
        for _ in range(2000):
            pass

    calls = {"slow": wait, "fast": lambda: None, "work of many": wait}
    assert find_fastest(calls) == "fast"
    assert find_fastest(calls, {"slow": 1, "fast": 1, "work of many": 10**6}) == "work of many"
    assert find_fastest({"alone": lambda: 1 // 0}) == "alone"
