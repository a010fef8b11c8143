"""What follows from a machine model, and what the built-in ones say."""

from dataclasses import fields, replace

import pytest

from gathernest.lowering.schedule.machine_model import BUILT_IN, MachineModel

ZEN4 = BUILT_IN["zen4"]


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        ("min_shared_bytes", 16 * 1024),
        ("min_shared_checks", 16384),
        ("tile_bytes", 64 * 1024),
        ("large_tile_bytes", 256 * 1024),
        ("staged_indices", 4096),
        ("near_rows", 16),
        ("far_rows", 256),
        ("far_bytes", 16 * 1024),
        ("unrolled_row_bytes", 512),
    ],
)
def test_thresholds_of_zen_4_are_what_was_measured_on_it(threshold, expected):
    assert getattr(ZEN4, threshold) == expected


@pytest.mark.parametrize(
    ("change", "threshold", "expected"),
    [
        ({"near_bytes": 2048}, "far_bytes", 8192),
        ({"l1_misses": 12}, "near_rows", 8),
        ({"l2_misses": 48}, "far_rows", 128),
        ({"launch_ns": 4000.0}, "min_shared_bytes", 65536),
        ({"launch_ns": 8000.0}, "min_shared_checks", 131_072),
        ({"l2_bytes": 2 << 20}, "tile_bytes", 128 * 1024),
        ({"l1_bytes": 8192}, "staged_indices", 1024),
        ({"vector_bytes": 64}, "unrolled_row_bytes", 1024),
        ({"l3_share": 0.5}, "l3_room_bytes", 16 << 20),
    ],
)
def test_thresholds_follow_from_the_model(change, threshold, expected):
    assert getattr(replace(ZEN4, **change), threshold) == expected


@pytest.mark.parametrize(
    ("table_bytes", "found_ns"), [(32 << 10, 0.3), (1 << 20, 0.7), (32 << 20, 2.7), ((32 << 20) + 1, 9.5)]
)
def test_a_random_line_costs_what_it_does_alone_where_it_lies(table_bytes, found_ns):
    assert ZEN4.random_line_ns(table_bytes) == found_ns
    assert ZEN4.serial_ns(0, 10, table_bytes) == pytest.approx(10 * found_ns)


@pytest.mark.parametrize("model", BUILT_IN.values(), ids=BUILT_IN)
def test_a_built_in_model_has_larger_and_slower_caches_outwards(model: MachineModel):
    assert model.l1_bytes < model.l2_bytes < model.l3_bytes
    for line_ns in (model.line_ns, model.near_line_ns, model.alone_line_ns):
        assert list(line_ns) == sorted(line_ns)
    assert sorted(model.copy_bytes_per_ns, reverse=True) == list(model.copy_bytes_per_ns)
    assert all(getattr(model, field.name) for field in fields(model) if field.name != "strayed_lines")
