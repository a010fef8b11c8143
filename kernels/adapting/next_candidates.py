"""The candidates of a class of calls, in the order in which they race. Plain Python."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest

from ...lowering.schedule.candidates import candidates, variations
from ...lowering.schedule.cost.gather_cost import GatherModel
from ...lowering.schedule.gather_heuristic import choose_schedule
from ...lowering.schedule.loop_sizes import NestShape
from ...lowering.schedule.machine_model import MachineModel
from ...lowering.schedule.schedule import Schedule


def next_candidates(
    nest: NestShape, machine: MachineModel, chosen: Schedule, *, is_gradient: bool
) -> Iterator[Schedule]:
    """Yield schedules to race with the one that calls have: each differs in one field, and shares work where it does.

    Of a gather, the best predicted one of every field goes first, so that a prediction that is wrong about one field
    does not hide the others; then the second ones. What wins is the next one to vary. A schedule that shares work among
    threads where calls do not, or the other way round, is none: on a busy machine it would win for as long as that
    lasts.
    """
    found = _of_gradient(nest, machine, chosen) if is_gradient else _of_gather(nest, machine, chosen)
    for schedule in dict.fromkeys(found):
        if schedule != chosen and bool(schedule.parallel) == bool(chosen.parallel):
            yield schedule


def _of_gradient(nest: NestShape, machine: MachineModel, chosen: Schedule) -> Iterator[Schedule]:
    yield from candidates(nest, machine, chosen, is_gradient=True)


def _of_gather(nest: NestShape, machine: MachineModel, chosen: Schedule) -> Iterator[Schedule]:
    model = GatherModel(nest, machine)
    fields: dict[str, list[tuple[float, int, Schedule]]] = {}
    for place, variation in enumerate(variations(nest, machine, chosen) if chosen != Schedule() else []):
        if len(variation) == 1:
            (field,) = variation
            time_us = model.predict(chosen, variation).time_us
            fields.setdefault(field, []).append((time_us, place, replace(chosen, **variation)))
    for rank in zip_longest(*map(sorted, fields.values())):
        yield from (schedule for _, _, schedule in sorted(each for each in rank if each is not None))
    yield choose_schedule(nest, machine).schedule
