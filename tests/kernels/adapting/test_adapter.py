"""The adapter in a made-up world: clocks, compilers and calls are the test's, so that budgets can be added up."""

import math
import random
from dataclasses import dataclass, field, replace

import pytest

import gathernest as gn
from gathernest.ir.errors import ScheduleError
from gathernest.kernels.adapting import adapter as adapters
from gathernest.kernels.adapting.adapter import COMPILING_S, MOST_CLASSES, Adapter
from gathernest.kernels.adapting.budget import SHARE
from gathernest.kernels.adapting.call_class import FIRST_CALLS, LEAST_SPENT_S, SHORTEST_S, Subject
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.plan import make_plan
from gathernest.kernels.runtime.select_schedule import tuned_schedule
from gathernest.kernels.tune import recorded
from gathernest.kernels.tuned_schedules.records import TuningWarning

with pytest.MonkeyPatch.context() as unnamed:  # records are of the machine that nobody named
    unnamed.delenv("GATHERNEST_MACHINE")
    PLAN = make_plan(problem_of("gather", "1000x64xf32", "4000xi64"))
NAME = PLAN.adapted_class
FASTER = replace(PLAN.schedule, lanes=4)
pytestmark = pytest.mark.usefixtures("own_records", "adapt")


@pytest.fixture
def adapt(monkeypatch):
    monkeypatch.setattr(adapters, "IMPORTING_S", COMPILING_S)
    random.seed(0)  # the order of pairs
    with gn.knobs.scope(adapt=True):
        yield


@dataclass
class World:
    """Calls of 5 ms each, unless their schedule takes another part of that; compiling takes half a second.

    Attributes:
        gains: how many times as fast a schedule is; 1 where it is not named.
        compiling_s: CPU time of a compilation.
        beside_s: what watching a call takes beside its kernel.
        failing: the schedules that a pass rejects.
    """

    gains: dict = field(default_factory=dict)
    compiling_s: float = 0.9 * COMPILING_S
    noise: float = 0.1
    failing: tuple = ()
    usual_s: float = 5e-3
    beside_s: float = 0.0
    now_s: float = 0.0
    compiled: list = field(default_factory=list)
    schedule: object = PLAN.schedule
    worst_share: float = 0.0

    def __post_init__(self):
        self.rng = random.Random(0)
        self.adapter = Adapter(clock=lambda: self.now_s, begin=lambda work: work())

    def prepare(self, schedule):
        self.now_s += self.compiling_s
        self.compiled.append(schedule)
        if schedule in self.failing:
            raise ScheduleError("made up")
        return schedule

    def watch(self, name=NAME, tuned=None):
        subject = Subject(PLAN.problem, PLAN.layout.nest, self.schedule, name, self.prepare, lambda schedule: False)
        return self.adapter.watch(subject, tuned)

    def time_s(self, schedule) -> float:
        return self.usual_s / self.gains.get(schedule, 1.0) * math.exp(self.rng.gauss(0, self.noise))

    def call(self, watched, failure: str = "") -> None:
        turn = watched.begin()
        own = watched.subject.schedule
        watched.beside_s += self.beside_s
        if turn is None:
            watched.add(self.time_s(own))
        elif turn.is_trial:
            other_s = self.time_s(turn.other)
            watched.end_trial(turn, self.time_s(own), other_s + 3 * self.usual_s, other_s, failure)
        else:
            watched.end(turn, self.time_s(own if turn.other is None else turn.other))
        self.worst_share = max(self.worst_share, self.adapter.budget.share)

    def run(self, seconds: float, failure: str = "") -> None:
        """Call for so many seconds of calls, planned anew where a winner was recorded."""
        end, watched = self.adapter.budget.calls_s + seconds, self.watch()
        while watched is not None and self.adapter.budget.calls_s < end:
            self.call(watched, failure)
            if watched.is_over:
                tuned = tuned_schedule(PLAN.layout.kernel_class, PLAN.layout.nest, is_fresh=True)
                self.schedule = tuned.schedule or self.schedule if tuned else self.schedule
                watched = self.watch(tuned=tuned)

    @property
    def found(self):
        return self.adapter.classes[NAME]


def outcomes(world: World) -> dict:
    return {outcome.schedule: outcome.outcome for outcome in world.found.outcomes}


@pytest.mark.parametrize(("part", "is_begun"), [(0.015, True), (0.025, False)])
def test_what_watching_takes_beside_the_kernels_is_a_part_of_the_share(part, is_begun):
    world = World(beside_s=part * World.usual_s)
    world.run(300)
    assert bool(world.compiled) == is_begun
    assert world.adapter.budget.watching_s >= 0.99 * part * world.adapter.budget.calls_s / math.exp(0.02)


def test_a_faster_candidate_is_found_recorded_and_varied_further():
    world = World({FASTER: 1.3})
    world.run(600)
    assert world.found.state == "over"
    assert outcomes(world)[FASTER] == "won"
    assert {outcome.beside for outcome in world.found.outcomes} == {PLAN.schedule, FASTER}
    record = recorded()[NAME]
    assert (record.schedule, record.default, record.origin) == (str(FASTER), str(PLAN.schedule), "adapt")
    assert record.ratio == pytest.approx(1.3, rel=0.1)
    assert record.default_us == pytest.approx(5000, rel=0.1)
    assert make_plan(PLAN.problem).schedule == FASTER
    assert make_plan(PLAN.problem).reasons[0] == "adapting found it faster in calls on this machine"


def test_a_later_process_has_the_winner_and_says_where_it_comes_from(python, tmp_path):
    World({FASTER: 1.3}, compiling_s=0.0).run(60)
    code = """
        from gathernest.kernels.problems.named_problem import problem_of
        from gathernest.kernels.runtime.plan import make_plan
        from gathernest.tools import cli
        plan = make_plan(problem_of("gather", "1000x64xf32", "4000xi64"))
        print(plan.schedule, plan.reasons[0])
        cli.main(["tune", "--list"])
    """
    told = python(code, GATHERNEST_TUNING=str(gn.knobs.tuning))
    assert told.startswith(f"{FASTER} adapting found it faster in calls on this machine\n1 record in ")
    assert "of 151 pairs, " in told and ", found by adapting calls with a new result)" in told


def test_a_record_for_new_results_is_none_for_calls_with_out():
    World({FASTER: 1.3}).run(300)
    assert make_plan(PLAN.problem).schedule == FASTER
    assert make_plan(PLAN.problem.into(PLAN.problem.result)).schedule == PLAN.schedule


def test_where_none_is_faster_that_is_recorded_and_no_later_process_races_again():
    world = World()
    world.run(600)
    assert set(outcomes(world).values()) == {"lost"}
    assert recorded()[NAME].schedule is None
    assert make_plan(PLAN.problem).schedule == PLAN.schedule
    later = World()
    assert later.watch(tuned=make_plan(PLAN.problem).tuned) is None


@pytest.mark.parametrize(
    "world",
    [
        World(),
        World({FASTER: 1.5}),
        World(noise=0.5),
        World(compiling_s=0.0),
        World({None: 1.0}, usual_s=0.3),
        World(dict.fromkeys([FASTER], 0.25), noise=0.01, compiling_s=0.0),
    ],
    ids=["equal", "faster", "noisy", "compiled", "long calls", "slower"],
)
def test_the_budget_is_never_exceeded(world):
    world.run(400)
    assert world.compiled
    assert 0.0 < world.worst_share <= SHARE


def test_after_a_longer_compilation_than_any_before_nothing_begins_until_the_share_is_right():
    world = World(compiling_s=4 * COMPILING_S)
    world.run(70)
    assert len(world.compiled) == 1
    assert world.worst_share < SHARE + 4 * COMPILING_S / 35
    assert world.adapter.budget.share > SHARE / 2
    world.run(300)
    assert len(world.compiled) >= 2
    assert world.adapter.budget.share <= SHARE


def test_no_candidate_is_chosen_before_a_class_has_cost_a_second():
    world = World(compiling_s=0.0)
    world.adapter.budget.calls_s = 1e6  # other classes have paid for much
    watched = world.watch()
    while world.found.spent_s < LEAST_SPENT_S:
        assert world.found.state == "watched"
        world.call(watched)
    assert world.found.state == "racing"


def test_candidates_that_a_pass_rejects_are_left_out():
    world = World({FASTER: 1.3}, failing=(FASTER,))
    world.run(400)
    assert outcomes(world)[FASTER] == "failed"
    assert world.found.state == "over"
    assert recorded()[NAME].schedule is None


def test_a_candidate_that_gives_other_bytes_never_runs_again():
    world = World({FASTER: 1.3}, compiling_s=0.0)
    world.run(100, failure="it gives other bytes")
    assert set(outcomes(world).values()) == {"failed"}
    assert world.found.outcomes[0].reason == "it gives other bytes"
    assert recorded() == {}


def test_a_candidate_whose_first_call_takes_far_too_long_does_not_race():
    world = World({FASTER: 0.1}, compiling_s=0.0)
    world.run(60)
    slow = next(outcome for outcome in world.found.outcomes if outcome.schedule == FASTER)
    assert slow.outcome == "failed" and "s are too long" in slow.reason


def test_short_calls_are_left_to_the_fast_call():
    world = World(usual_s=SHORTEST_S / 3)
    watched = world.watch()
    for _ in range(FIRST_CALLS):
        assert not watched.is_over
        world.call(watched)
    assert watched.is_over
    assert world.found.is_empty


def test_calls_that_fail_count_for_no_pair_and_end_no_race():
    world = World(compiling_s=0.0)
    world.adapter.budget.calls_s = 1e6
    watched = world.watch()
    while not watched.is_racing:
        world.call(watched)
    for _ in range(5):
        turn = watched.begin()
        assert turn is not None and watched.begin() is None  # one call at a time
        watched.abandon(turn)
    world.run(5)
    assert len(world.found.outcomes) > 0


def test_a_knob_that_is_turned_off_meanwhile_begins_nothing_more():
    world = World()
    world.run(20)
    with gn.knobs.scope(adapt=False):
        world.run(100)
    assert world.compiled == []
    world.run(60)
    assert len(world.compiled) > 0


def test_calls_that_no_longer_come_make_room_for_others_of_their_class():
    world = World(compiling_s=0.0)
    world.adapter.budget.calls_s = 1e6
    first = world.watch()
    while not first.is_racing:
        world.call(first)
    other = world.adapter.watch(replace(first.subject, problem=problem_of("gather", "1001x64xf32", "4000xi64")), None)
    world.call(first)
    for _ in range(300):
        world.call(other)
    assert world.found.heat.calls is other


def test_as_many_classes_are_watched_as_there_is_room_for_and_those_without_calls_are_forgotten():
    world = World()
    for number in range(MOST_CLASSES):
        assert world.watch(f"{number}") is not None
    assert world.watch("more") is None
    world.adapter.classes["7"].replan()
    assert world.watch("more") is not None
    assert len(world.adapter.classes) == MOST_CLASSES


def test_where_the_file_cannot_be_written_this_process_has_the_winner(tmp_path):
    (tmp_path / "file").write_text("")
    with gn.knobs.scope(tuning=tmp_path / "file" / "records.json"):
        world = World({FASTER: 1.3}, compiling_s=0.0)
        with pytest.warns(TuningWarning, match="what adapting found cannot be recorded in .*, so this process alone"):
            world.run(60)
        assert make_plan(PLAN.problem).schedule == FASTER


def test_whatever_fails_ends_one_class_with_a_warning(monkeypatch):
    def fail(*arguments, **options):
        raise ZeroDivisionError("made up")
        yield

    monkeypatch.setattr(adapters, "next_candidates", fail)
    world = World()
    with pytest.warns(TuningWarning, match="adapting has stopped for one class of calls: made up"):
        world.run(20)
    assert world.found.state == "over"


def test_a_class_that_was_tuned_meanwhile_is_left_alone():
    world = World()
    world.run(5)
    tuned = adapters.Tuned(PLAN.problem_class, "tune", FASTER)
    assert world.watch(tuned=tuned) is None
    assert world.found.state == "over"
