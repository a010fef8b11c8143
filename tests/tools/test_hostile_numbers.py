"""Numbers and texts that no sound file, option or variable has: each is one error of the package, or left out.

Doors are drawn from and called in this process. What comes out is a result, a `GathernestError`, an exit status of 0, 1
or 2 without a report of a defect, and one warning at most for a file that is left out.
"""

import contextlib
import io
import json
import random
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host import machine
from gathernest.kernels.host.machine import Calibration, forget_calibration, machine_facts
from gathernest.kernels.machine.calibrate import keep
from gathernest.kernels.tuned_schedules.records import Record, write_records
from gathernest.playground.play.settings import Settings
from gathernest.tools import cli, opt

from ..selection import examples

NUMBERS = (
    *("0", "-0", "-1", "1", "2", "7", "64", "4096", "65536", "2147483647", "2147483648", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775809", "18446744073709551616", "9" * 30, "9" * 5000, "-" + "9" * 5000),
    *("1e999", "-1e999", "1e-999", "5e-324", "1e308", "1e39", "0.5", "1.5"),
    *("nan", "inf", "NaN", "Infinity", "-Infinity", "x", "1_000", "0x10", "٣", "true", "null", "[]", "{}", '"4"'),
    *("", " ", "1" + "0" * 400 + ".0", "[" * 5000, "é\x00"),
)
DATA, INDICES = np.arange(12.0).reshape(4, 3), np.array([3, 0])
ARRAYS = ("--data", "40x3xf32", "--indices", "7xi64")
ARRAY_TEXTS = "{}xf32", "4x{}xi64", "4x3xf32 strided<[{}, 1]>", "3xvoid{}", "4xS{}"
GRADIENT = ("--operator", "gather_grad", *ARRAYS)
SCHEDULES = (
    *("tile-loops{{loops=indices sizes={}}}", "specialize-inner{{bytes={}}}", "vectorize-inner{{lanes={}}}"),
    *("unroll{{loop=inner factor={}}}", "prefetch{{what=rows loop=indices ahead={} locality=3}}"),
    *("prefetch{{what=rows loop=indices ahead=1 lines={} locality=3}}", "vectorize-lists{{lanes={}}}"),
    *("owner-computes{{owners={} axis=axis}}", "parallelize-sort{{parts={}}}"),
    *("prefetch{{what=slices loop=indices ahead={} locality=1}}", "{}", "tile-loops{{loops={} sizes=4}}"),
)
STAGES = (
    "func.func @f(%a: i{}) {{ func.return }}",
    "func.func @f() {{ %a = arith.constant {} : i64 func.return }}",
    "func.func @f() {{ %a = arith.constant {} : f32 func.return }}",
    "func.func @f() {{ %a = arith.constant 1 : i{} func.return }}",
    "func.func @f() {{ %a = arith.constant dense<{}> : tensor<4xi8> func.return }}",
    "func.func @f() {{ %a = arith.constant dense<1> : tensor<{}xi8> func.return }}",
    "func.func @f(%a: memref<{}xf32>) {{ func.return }}",
    "func.func @f(%a: memref<4xf32, strided<[{}]>>) {{ func.return }}",
    "func.func @f() attributes {{gather.x = {} : i64}} {{ func.return }}",
    "func.func @f(%a: tensor<{0}xf32>, %i: tensor<2xi64>) -> tensor<2xf32> {{ %r = gather.gather %a, %i axis 0 "
    "batch_dims 0 bounds error : tensor<{0}xf32>, tensor<2xi64> -> tensor<2xf32> func.return %r : tensor<2xf32> }}",
    "func.func @f(%a: tensor<4xf32>, %i: tensor<2xi64>) -> tensor<2xf32> {{ %r = gather.gather %a, %i axis {} "
    "batch_dims 0 bounds error : tensor<4xf32>, tensor<2xi64> -> tensor<2xf32> func.return %r : tensor<2xf32> }}",
    "func.func @f(%a: tensor<2xf32>, %i: tensor<2xi64>) -> tensor<4xf32> {{ %r = gather.gather_grad %a, %i axis 0 "
    "batch_dims 0 bounds error scale {} : tensor<2xf32>, tensor<2xi64> -> tensor<4xf32> "
    "func.return %r : tensor<4xf32> }}",
)
SCRIPT = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%nest: !transform.any_op) {
    %0 = transform.apply_registered_pass "tile-loops" with options = {"loops" = "indices", "sizes" = SIZES} to %nest
      : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}"""
SIZES = "{}", "{} : i64", "{} : f64", "4 : i{}", "[4, {}]", "dense<{}> : tensor<4xi64>", "dense<4> : tensor<{}xi64>"
OPTIONS = (
    *(("show", *ARRAYS, "--axis"), ("show", *ARRAYS, "--batch-dims"), ("show", *GRADIENT, "--scale")),
    *(("show", "--indices", "7xi64", "--data"), ("show", "--data", "40x3xf32", "--indices")),
    *(("show", *ARRAYS, "--schedule"), ("show", *ARRAYS, "--machine"), ("show", *ARRAYS, "--threads")),
    *(("exec", "--step", "0", *ARRAYS, "--random"), ("demo", "--rounds"), ("warm", "--jobs"), ("cache", "--limit-mb")),
    *(("bench", "--rounds"), ("bench", "--threads"), ("tune", *ARRAYS, "--forget"), ("split", "x.onnx", "--size")),
    *(("build", "--so", "x.so", *ARRAYS, "--axis"), ("play", "--port")),
)
RECORD = Record(
    *("tile-loops{loops=indices sizes=64}", "", 20.0, 10.0, 2.0, 21, 21, "2026-01-02T03:04:05Z", "a CPU"),
    *({"gathernest": "0.1.0"}, {"operator": "gather"}),
)
MACHINE = {"base": "zen4", "l2_bytes": 1 << 20, "memory_ns": 90.0, "line_ns": [1.0, 2.0, 9.0, 50.0], "l3_share": 0.5}
MACHINE |= {"threads": 4, "vector_bytes": 32, "store_times": 2, "strayed_lines": 1.5}
CASE = {"name": "a", "operator": "gather", "data": [400, 3], "indices": [70], "dtype": "float32", "axis": 0}
CASE |= {"index_dtype": "int64", "family": "rows", "best": "", "ratio": 1.0, "batch_dims": 0}
CASE |= {
    "candidates": [
        {"schedule": "", "measured_us": 1.0},
        {"schedule": "parallelize-loops{loops=indices}", "measured_us": 2.0},
    ]
}
REGRET = {"cases": [CASE], "machine_model": {"name": "zen4", **MACHINE}, "rounds": 9, "busy_cores": 0.1, "cpu": "a"}
REGRET |= {"cores": 2}


# A value in a JSON text.
VALUE = re.compile(r'(?:: |\[|, )("[^"]*"|[-0-9.e]+|null)(?=[,\]}])')


def damaged(rng: random.Random, content: object) -> str:
    """Return a JSON text with something else in the place of one of its values, or with something lost or doubled."""
    text = json.dumps(content)
    how = rng.randrange(6)
    if how == 0:
        return text[: rng.randrange(len(text))]
    if how == 1:
        return text.replace("{", '{"x": 1, "x": 2, ', 1)
    if how == 2:
        return rng.choice(NUMBERS)
    spots = [match.span(1) for match in VALUE.finditer(text)]
    start, end = rng.choice(spots)
    return text[:start] + rng.choice(NUMBERS) + text[end:]


def run(main, *words: str) -> None:
    """Run a command line in this process; its exit status is one of a user's errors."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(list(words))
    said = err.getvalue()
    assert status in (0, 1, 2), (status, said)
    if "unexpected" in said or "please report" in said:
        raise AssertionError(said)
    if max(map(len, said.splitlines()), default=0) > 4000:
        raise AssertionError(f"a line of {len(said)} characters: {said[:300]}")


def gather() -> None:
    np.testing.assert_array_equal(gn.gather(DATA, INDICES), DATA[[3, 0]])


class Doors:
    """What takes numbers from outside, each with a drawn one."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self._folder, self._monkeypatch, self._files = folder, monkeypatch, 0

    def _file(self, text: str, suffix: str = ".json") -> Path:
        self._files += 1
        path = self._folder / f"{self._files}{suffix}"
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        return path

    def tuning(self, rng: random.Random) -> None:
        path = self._folder / "records.json"
        write_records(path, {"class": RECORD})
        path = self._file(damaged(rng, json.loads(path.read_text())))
        with gn.knobs.scope(tuning=path):
            gather()
            run(cli.main, "tune", "--list")

    def tuned_schedule(self, rng: random.Random) -> None:
        text = rng.choice(SCHEDULES).format(rng.choice(NUMBERS))
        with contextlib.suppress(gn.GathernestError):
            gn.Schedule.parse(text)
        run(opt.main, "-p", text, str(self._file(STAGES[0].format(8), ".mlir")))

    def machine(self, rng: random.Random) -> None:
        path = self._file(damaged(rng, MACHINE))
        with gn.knobs.scope(machine=path):
            gather()
            gn.knobs.settings()
            run(cli.main, "doctor")
        run(cli.main, "show", *ARRAYS, "--stage", "operator", "--machine", str(path))

    def calibration(self, rng: random.Random) -> None:
        fields = {name: value for name, value in MACHINE.items() if name not in ("base", "threads")}
        path = keep(Calibration("zen3", fields, machine_facts(), 2, 0.25, "2026-11-22T12:00:00Z", {"numba": "0.1"}))
        path.write_text(damaged(rng, json.loads(path.read_text())))
        forget_calibration()
        machine._LEFT_OUT.clear()
        try:
            gather()
            run(cli.main, "doctor")
        finally:
            path.unlink()
            forget_calibration()

    def variable(self, rng: random.Random) -> None:
        names = ("NUM_THREADS", "RECYCLE_MB", "CACHE_LIMIT_MB", "SCHEDULE", "MACHINE", "INTERPRET", "TUNING")
        with self._monkeypatch.context() as patched:
            patched.setenv(f"GATHERNEST_{rng.choice(names)}", rng.choice(NUMBERS).replace("\x00", ""))
            with contextlib.suppress(gn.GathernestError):
                gather()

    def option(self, rng: random.Random) -> None:
        text, words = rng.choice(NUMBERS), rng.choice(OPTIONS)
        if words[-1] in ("--data", "--indices"):
            text = rng.choice(
                (f"{text}xf32", f"4x{text}xi64", f"4x3xf32 strided<[{text}, 1]>", f"3xvoid{text}", f"4xS{text}")
            )
        if words[0] in ("show", "build", "tune"):
            run(cli.main, *words, text)
            return
        with contextlib.suppress(ValueError):
            if 0 < float(text) < 1e10:  # which would measure, serve or compile
                return
        run(cli.main, *words, text)

    def stage(self, rng: random.Random) -> None:
        path = self._file(rng.choice(STAGES).format(rng.choice(NUMBERS)), ".mlir")
        run(opt.main, "-p", rng.choice(("default", "canonicalize")), str(path))

    def transform_script(self, rng: random.Random) -> None:
        script = gn.schedule("gather", "40x3xf32", "7xi64")
        with contextlib.suppress(gn.GathernestError):
            script.from_transform(SCRIPT.replace("SIZES", rng.choice(SIZES).format(rng.choice(NUMBERS))))

    def link(self, rng: random.Random) -> None:
        names = ("axis", "batch_dims", "scale", "data", "indices", "operator", "bounds", "text", "steps")
        with contextlib.suppress(gn.GathernestError):
            gn.schedule(**Settings.from_query({rng.choice(names): rng.choice(NUMBERS)}).gather)

    def stored(self, rng: random.Random) -> None:
        path = self._file(damaged(rng, REGRET))
        run(cli.main, "bench", "--regret", "--from", str(path))

    def argument(self, rng: random.Random) -> None:
        number = rng.choice((2**31, 2**62, 2**63, -(2**63), 10**30, 10**5000, -(10**5000), 1e39, float("nan"), 1e-320))
        calls = (
            lambda: gn.gather(DATA, INDICES, number),
            lambda: gn.gather(DATA, INDICES, 0, batch_dims=number),
            lambda: gn.gather(DATA, number),
            lambda: gn.gather(DATA, [number]),
            lambda: gn.take(DATA, INDICES, number),
            lambda: gn.take_along_axis(DATA, [[0]], number),
            lambda: gn.gather_grad(DATA[:2], INDICES, (number, 3)),
            lambda: gn.gather_grad(DATA[:2].astype("f4"), INDICES, (4, 3), scale=number),
            lambda: gn.gather_reduce(DATA, [INDICES], padding_index=number),
            lambda: gn.gather_reduce(DATA, INDICES, [number]),
            lambda: gn.gather_reduce(DATA, INDICES, lengths=[number]),
            lambda: gn.gather_reduce_grad(DATA[:1], [INDICES], (number, 3)),
            lambda: gn.ArraySpec((number,), "f4"),
            lambda: gn.ArraySpec((4,), "f4", (number,)),
            lambda: gn.Schedule.parse(f"tile-loops{{loops=indices sizes={number}}},vectorize-inner{{lanes={number}}}"),
            lambda: gn.knobs.scope(num_threads=number).__enter__(),
            lambda: gn.gather(DATA, INDICES, bounds=gn.Fill(number)),
        )
        with contextlib.suppress(gn.GathernestError, MemoryError):
            rng.choice(calls)()


DOORS = [name for name in vars(Doors) if not name.startswith("_")]


def attack(doors: Doors, name: str, seeds: range) -> None:
    failed = []
    for seed in seeds:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                getattr(doors, name)(random.Random(seed))
            except Exception as error:  # said with the seed that repeats it
                failed.append(f"{name} {seed}: {type(error).__name__}: {str(error)[:300]}")
        left_out = [str(each.message) for each in caught]
        if len(set(left_out)) < len(left_out):
            failed.append(f"{name} {seed}: warned twice: {left_out[0]}")
    assert not failed, "\n".join(failed)


@pytest.fixture
def doors(tmp_path, monkeypatch):
    monkeypatch.setenv("GATHERNEST_CACHE_DIR", str(tmp_path / "cache"))
    gather()
    return Doors(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", DOORS)
def test_a_hostile_number_is_one_error_or_left_out(doors, name):
    attack(doors, name, range(12))


@pytest.mark.thorough
@pytest.mark.parametrize("name", DOORS)
def test_many_hostile_numbers_are_errors_or_left_out(doors, name):
    attack(doors, name, range(100, 100 + examples(25)))
