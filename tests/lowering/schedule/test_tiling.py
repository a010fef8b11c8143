"""How nests beside the one that copies are tiled."""

from dataclasses import replace

import pytest

from gathernest.ir.loop_name import LoopName
from gathernest.lowering.schedule.choose import tile_checks
from gathernest.lowering.schedule.machine_model import BUILT_IN

SHARED = (("check_indices", 4096),), ("check_indices_o",)


@pytest.mark.parametrize(
    ("launch_ns", "indices", "expected"),
    [(1000.0, 16_383, ((), ())), (1000.0, 16_384, SHARED), (100_000.0, 16_384, ((), ()))],
)
def test_checks_are_shared_where_they_take_longer_than_launches(launch_ns, indices, expected):
    machine = replace(BUILT_IN["zen4"], threads=2, launch_ns=launch_ns)
    assert tile_checks(((LoopName("indices"), indices),), machine) == expected
