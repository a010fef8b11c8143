import json
import math
import stat
from types import SimpleNamespace

import pytest

import gathernest as gn
from gathernest.kernels.host.cache_folder import CacheWarning
from gathernest.kernels.roofline import measure_peaks, peak_rates
from gathernest.kernels.roofline.ceilings import Ceilings, CopyRate, LineRate
from gathernest.kernels.roofline.peak_rates import ceilings, machine_facts

FACTS = {"threads": 2, "caches_bytes": {"L1": 4096, "L2": 16384, "L3": 65536}, "last_level_cache_bytes": 65536}
RATES = Ceilings(
    FACTS,
    (CopyRate(1000, 100.0), CopyRate(100_000, 10.0)),
    (LineRate(1000, 1, 40.0), LineRate(100_000, 1, 4.0), LineRate(1000, 16, 160.0), LineRate(100_000, 16, 16.0)),
)


@pytest.fixture
def measurings(monkeypatch, cache_dir):
    """Have the machine measured at once, which gives made-up rates; return them, and what was measured."""
    measured = SimpleNamespace(rates=RATES, calls=[])

    def measure(facts, progress):
        measured.calls.append(facts)
        return Ceilings(facts, measured.rates.copies, measured.rates.lines)

    monkeypatch.setattr(measure_peaks, "measure_ceilings", measure)
    forget()
    yield measured
    forget()


def forget():
    """Have the next call read the file, as that of another process would."""
    peak_rates._known.clear()


def test_rates_are_interpolated_in_the_logarithm_of_the_size():
    assert RATES.copy_bytes_per_s(10_000) == pytest.approx(math.sqrt(1000))
    assert RATES.lines_per_s(10_000) == pytest.approx(math.sqrt(160))
    assert RATES.lines_per_s(1000, 4) == pytest.approx(80)
    assert RATES.copy_bytes_per_s(10**12) == 10


@pytest.mark.parametrize(("size", "rate"), [(1, 100.0), (1000, 100.0), (100_000, 10.0), (10**12, 10.0)])
def test_rates_outside_the_measured_sizes_are_those_at_the_ends(size, rate):
    assert RATES.copy_bytes_per_s(size) == pytest.approx(rate)


def test_ceilings_are_measured_once_and_read_from_their_file(measurings, cache_dir):
    found = ceilings()
    assert ceilings() is found
    forget()
    assert ceilings() == found
    assert len(measurings.calls) == 1
    (file,) = (cache_dir / "ceilings").iterdir()
    stored = json.loads(file.read_text())
    assert stored["machine"] == machine_facts()
    assert stored["copies"][0] == {"footprint_bytes": 1000, "bytes_per_s": 100.0}


def test_another_number_of_threads_has_ceilings_of_its_own(measurings, cache_dir):
    ceilings()
    with gn.knobs.scope(num_threads=1):
        assert ceilings().threads == 1
    threads = {facts["threads"] for facts in measurings.calls}
    assert len(list((cache_dir / "ceilings").iterdir())) == len(threads)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "[" * 100_000,
        lambda text: text.replace('"format": 2', '"format": 1'),
        lambda text: text.replace("100.0", "-100.0"),
        lambda text: text.replace("100.0", "NaN"),
        lambda text: text.replace("100.0", '"fast"'),
        lambda text: text.replace('"lines"', '"rows"'),
        lambda text: text.replace('"threads"', '"strands"'),
    ],
)
def test_damaged_file_is_measured_and_written_anew(measurings, cache_dir, damage):
    found = ceilings()
    (file,) = (cache_dir / "ceilings").iterdir()
    file.write_text(damage(file.read_text()))
    forget()
    assert ceilings() == found
    assert len(measurings.calls) == 2
    assert Ceilings.from_json(json.loads(file.read_text())) == found


def test_unsound_file_is_measured_and_written_anew(measurings, cache_dir, make_unsound):
    found = ceilings()
    (file,) = (cache_dir / "ceilings").iterdir()
    make_unsound(file)
    forget()
    assert ceilings() == found
    assert len(measurings.calls) == 2
    assert stat.S_IMODE(file.lstat().st_mode) == 0o644
    assert Ceilings.from_json(json.loads(file.read_text())) == found


def test_remeasuring_keeps_the_better_rates(measurings):
    ceilings()
    measurings.rates = Ceilings(FACTS, (CopyRate(1000, 70.0), CopyRate(100_000, 12.0)), RATES.lines)
    after = ceilings(remeasure=True)
    assert [rate.bytes_per_s for rate in after.copies] == [100.0, 12.0]
    forget()
    assert ceilings() == after


def test_rates_at_other_sizes_replace_the_known_ones(measurings):
    ceilings()
    measurings.rates = Ceilings(FACTS, (CopyRate(2000, 1.0),), RATES.lines)
    assert ceilings(remeasure=True) == Ceilings(machine_facts(), measurings.rates.copies, RATES.lines)


def test_unwritable_folder_is_one_warning_and_ceilings_in_memory(measurings, tmp_path):
    (tmp_path / "file").write_text("")
    gn.knobs.cache_dir = tmp_path / "file" / "cache"
    with pytest.warns(CacheWarning) as caught:
        found = ceilings()
    assert str(caught[0].message) == (
        f"the cache folder {tmp_path}/file/cache/ceilings cannot be written (Not a directory); the ceilings of this "
        "machine are measured anew in every process. Set GATHERNEST_CACHE_DIR to a folder that can be written"
    )
    assert ceilings() is found
    assert len(measurings.calls) == 1


def test_always_compile_neither_reads_nor_writes_the_file(measurings, cache_dir):
    with gn.knobs.scope(always_compile=True):
        ceilings()
        assert not (cache_dir / "ceilings").exists()
    ceilings(remeasure=True)
    forget()
    with gn.knobs.scope(always_compile=True):
        ceilings()
    assert len(measurings.calls) == 3


@pytest.mark.thorough
def test_measuring_gives_a_rate_for_every_size_and_reports_its_passes(cache_dir):
    passes: list[tuple[int, int]] = []
    with gn.knobs.scope(always_compile=True):
        found = ceilings(remeasure=True, progress=lambda done, most: passes.append((done, most)))
    assert passes[0][0] == 1 and passes == sorted(passes)
    assert passes[-1][0] == passes[-1][1]
    footprints = [rate.footprint_bytes for rate in found.copies]
    assert footprints == sorted(set(footprints))
    assert {rate.piece_lines for rate in found.lines} == set(measure_peaks.PIECES_LINES)
    assert Ceilings.from_json(json.loads(json.dumps(found.to_json()))) == found
