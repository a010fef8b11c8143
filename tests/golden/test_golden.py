"""Generated sources as a whole: a refactor must not change them. `--update-golden` writes them anew."""

from dataclasses import replace
from pathlib import Path

import pytest

import gathernest as gn
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.problems.named_problem import _operator
from gathernest.kernels.runtime.compile import build_program
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.schedule.machine_model import BUILT_IN

HERE = Path(__file__).parent / "sources"


@pytest.fixture(autouse=True)
def _one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose schedules for one machine, whatever the caches of this one."""
    monkeypatch.setenv("GATHERNEST_MACHINE", "zen4")
    monkeypatch.setenv("GATHERNEST_NUM_THREADS", "2")


KERNELS = {
    "rows_error": ("gather", "1000x64xf32", "5000xi64", {}),
    "rows_zero": ("gather", "1000x64xf32", "5000xi64", {"bounds": "zero"}),
    "scalars_clip_u8": ("gather", "100xi16", "5000xui8", {"bounds": "clip"}),
    "last_axis_wrap": ("gather", "800x100xf64", "50xi32", {"axis": 1, "bounds": "wrap"}),
    "batch_int8_within": ("gather", "4x300x6xbf16", "4x20xi8", {"axis": 1, "batch_dims": 1}),
    "strided": ("gather", "30x40xf32 strided<[1, 30]>", "500xi64", {"bounds": "clip"}),
    "strings": ("gather", "30xS10", "500xi64", {"bounds": "zero"}),
    "tuples": ("gather_nd", "20x30x8xf32", "900x2xi64", {}),
    "elements": ("gather_elements", "20x30xf32", "20x50xi64", {"axis": 1, "bounds": "zero"}),
}


def source(operator: str, data: str, indices: str, options: dict) -> str:
    kernel_options = {"axis": 0, "batch_dims": 0, **options}
    spec = _operator(operator, kernel_options["axis"], kernel_options["batch_dims"])
    bounds = Bounds(options.get("bounds", "error"))
    problem = Problem.checked(spec, ArraySpec.parse(data), ArraySpec.parse(indices), bounds)
    return build_program(make_plan(problem)).source


@pytest.mark.parametrize("name", KERNELS)
def test_generated_source_is_the_golden_one(name: str, update_golden: bool) -> None:
    path = HERE / f"{name}.py.txt"
    got = source(*KERNELS[name])
    if update_golden:
        path.write_text(got)
    assert got == path.read_text(), f"run pytest tests/golden --update-golden and look at the difference of {path.name}"


def test_every_golden_file_has_its_kernel() -> None:
    assert sorted(path.name.removesuffix(".py.txt") for path in HERE.glob("*.py.txt")) == sorted(KERNELS)


def test_golden_source_is_what_the_kernel_shows() -> None:
    kernel = gn.compile("gather", "1000x64xf32", "5000xi64", bounds="zero")
    assert kernel.source == (HERE / "rows_zero.py.txt").read_text()
