"""Nests of given sizes, and the schedule that is chosen for a gather of each."""

from dataclasses import replace

from gathernest.lowering.schedule.gather_heuristic import choose_schedule
from gathernest.lowering.schedule.loop_sizes import NestShape
from gathernest.lowering.schedule.machine_model import BUILT_IN

MACHINE = replace(BUILT_IN["zen4"], threads=2)


def nest(batch=1, outer=1, axis=100, indices=1, inner=1, *, width=4, checked=False, **facts):
    copied = (("batch", batch), ("outer", outer), ("indices", indices), ("inner", inner))
    table = (("batch", batch), ("outer", outer), ("axis", axis), ("inner", inner))
    looked_up = frozenset({"batch", "indices"})
    return NestShape(copied, (copied[0], copied[2]) if checked else (), width, table, looked_up=looked_up, **facts)


def chosen(shape, machine=MACHINE):
    return str(choose_schedule(shape, machine).schedule)
