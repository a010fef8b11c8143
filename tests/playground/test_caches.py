"""The simulated caches: against a plain simulation of the addresses of a nest, and by the command line."""

import json

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.modules.context import parse_module
from gathernest.playground.caches import caches_of, simulate_caches
from gathernest.tools.cli import main

ROWS = "tile-loops{loops=indices sizes=4}"


def simulated(schedule, data, indices, capacities, **options):
    kernel = gn.compile("gather", data, indices, schedule=schedule, **options)
    return simulate_caches(parse_module(list(kernel.stages.values())[-1]), kernel.problem, data, indices, capacities)


def total(found, array, what, level):
    return sum(getattr(each, what)[level] for each in found.counts if each.array == array)


def fetched_of_lru(lines, room):
    cached, fetched = [], 0
    for line in lines:
        fetched += line not in cached
        others = [each for each in cached if each != line]
        cached = [*others[max(len(others) - room + 1, 0) :], line]
    return fetched


@pytest.mark.parametrize("room", [1, 3, 5])
def test_a_cache_fetches_what_a_plain_simulation_of_the_addresses_does(room):
    data, indices = np.zeros((9, 16), np.int32), np.array([0, 3, 0, 8, 3, 0, 5, 0])
    found = simulated("", data, indices, (room, 50, 99), bounds="unchecked")
    lines = []
    for number, index in enumerate(indices):
        lines.append(("indices", number * 8 // 64))
        for _ in range(16):
            lines += [("data", int(index)), ("out", number)]
    fetched = sum(total(found, array, "fetched", 0) for array in ("data", "indices", "out"))
    assert fetched == fetched_of_lru(lines, room)
    assert total(found, "data", "fetched", 1) == len(set(indices)) and total(found, "data", "evicted", 1) == 0
    assert total(found, "out", "fetched", 2) == len(indices)
    assert dict(found.predicted) == {"indices": 1, "data": 4, "output": 8}


def test_every_access_is_a_fetch_or_a_reuse_of_its_lines_and_a_miss_asks_the_next_cache():
    data, indices = np.zeros((30, 24), np.float32), np.arange(29, -1, -3)
    found = simulated(ROWS, data, indices, (2, 6, 12), bounds="clip")
    assert {each.loop for each in found.counts} >= {"inner"}
    for each in found.counts:
        assert each.fetched[0] + each.reused[0] == each.accesses
        assert each.fetched[:-1] == tuple(map(sum, zip(each.fetched[1:], each.reused[1:], strict=True)))
        assert all(evicted <= fetched for evicted, fetched in zip(each.evicted, each.fetched, strict=True))
        assert each.distinct <= each.accesses


def test_columns_in_the_outer_loop_fetch_the_lines_of_the_result_again():
    """Written in strides of a line, each line is fetched once for each of its elements."""
    data, indices = np.zeros((1, 40, 16), np.int32), np.arange(40)
    options = {"axis": 1, "bounds": "unchecked"}
    rows = simulated("", data, indices, (8, 16, 999), **options)
    columns = simulated(
        "tile-loops{loops=inner sizes=1},interchange-loops{order=inner_o,indices,inner_i}",
        *(data, indices, (8, 16, 999)), **options,
    )  # fmt: skip
    assert total(rows, "out", "fetched", 1) == 40
    assert total(columns, "out", "fetched", 1) == 40 * 16
    assert total(columns, "out", "fetched", 2) == 40


def test_an_element_that_is_moved_in_parts_is_in_the_lines_of_its_parts():
    data, indices = np.zeros(16, "V12"), np.arange(16)
    found = simulated("", data, indices, (8, 16, 99), bounds="unchecked")
    assert [each.distinct for each in found.counts if each.array in ("data", "out")] == [3, 3]  # 192 bytes


def test_non_temporal_stores_go_past_the_caches():
    data, indices = np.zeros((20, 64), np.float32), np.arange(20)
    found = simulated("vectorize-inner{lanes=16},stream-stores", data, indices, (4, 8, 99), bounds="unchecked")
    streams = [each for each in found.counts if each.streamed]
    assert streams and all(each.array == "out" and each.streamed == each.accesses for each in streams)
    assert not any(sum(each.fetched) + sum(each.reused) for each in streams)


def test_a_stage_without_loops_is_rejected():
    kernel, data = gn.compile("gather", "9x16xi32", "8xi64"), np.zeros((9, 16), np.int32)
    module = parse_module(kernel.stages["operator"])
    with pytest.raises(gn.InvalidGatherError, match="the stage has no loops yet; run it through passes first: -p nest"):
        simulate_caches(module, kernel.problem, data, np.arange(8))


def test_a_large_gather_is_simulated_by_a_small_one_with_caches_as_much_smaller():
    found = caches_of(gn.compile("gather", "1000000x64xf32", "100000xi64", bounds="clip").plan)
    assert found is not None and found.gather.startswith("gather 12x32xf32 by 12xi64")
    assert list(found.capacities) == sorted(found.capacities) and found.capacities[0] == 4
    assert caches_of(gn.compile("gather", "5x4xf32", "0xi64").plan) is None


def test_exec_prints_the_lines_of_each_array_and_loop(capsys, tmp_path):
    file = tmp_path / "stage.mlir"
    assert main(["show", "--data", "8x16xi32", "--indices", "4xi64", "--stage", "cse"]) == 0
    file.write_text(capsys.readouterr().out)
    with gn.knobs.scope(machine="zen4"):
        assert main(["exec", str(file), "--caches"]) == 0
    text = capsys.readouterr().out
    assert "L1, 512 lines" in text and "predicted, in lines: indices 1" in text
    assert main(["exec", str(file), "--caches", "--json"]) == 0
    stored = json.loads(capsys.readouterr().out)
    assert {each["array"] for each in stored["caches"]["counts"]} == {"data", "indices", "out"}
    assert main(["exec", str(file), "--caches", "--indices", "[0,9,1,2]xi64"]) == 0
    assert "rejects the call" in (said := capsys.readouterr().out) and "streamed" not in said
