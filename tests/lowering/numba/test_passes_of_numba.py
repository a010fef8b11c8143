"""Kernels are the same machine code by all of Numba's passes as by those that are run."""

from typing import Any

import numba
import pytest
from numba.core.compiler import Compiler

from gathernest.kernels.kernel import problem_of
from gathernest.kernels.runtime.compile import build_program
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.numba.compiler import compiled
from gathernest.lowering.numba.object_code import ToLibrary, library_of, njit
from gathernest.lowering.provenance.assembly import normal_form


class AllPasses(ToLibrary):
    """All passes of Numba, which find the type of each call anew."""

    def __init__(self, typing: Any, *others: Any):
        super().__init__(typing, *others)
        self.state.typingctx = typing

    define_pipelines = Compiler.define_pipelines


def njit_by_all_passes(*signature: Any, cache: bool = False, **options: Any) -> Any:
    return numba.njit(*signature, pipeline_class=AllPasses, **options)


@pytest.mark.draw(1)
@pytest.mark.parametrize(
    ("operator", "data", "indices", "options"),
    [
        ("gather", "100000x64xf32", "50000xi64", {}),
        ("gather", "800x100xf64", "50xi32", {"axis": 1, "bounds": "wrap"}),
        ("gather_nd", "20x30x8xf32", "900x2xi16", {"bounds": "clip"}),
        ("gather_mean", "1000x24xf32", "60x7xui8", {"bounds": "zero"}),
        ("gather_grad", "200000x20xf32", "90000xi64", {}),
        ("gather_grad", "2000x4xc64", "900xi32", {"scale": 0.5}),
        ("gather_elements", "9000x60xf32", "9000x60xi64", {"axis": 1}),
        ("gather_max", "1000x24xi16", "60x7xi64", {}),
        ("gather_reduce", "1000x24xf16", "60x7xi64", {"weights": True}),
        ("gather_reduce", "1000x24xbf16", "60x7xi64", {"weights": True}),
        ("gather_mean", "1000x24xui8", "60x7xi64", {"quantised": True}),
    ],
)
def test_passes_that_are_left_out_change_no_instruction(operator, data, indices, options):
    program = build_program(make_plan(problem_of(operator, data, indices, **options)))
    ours, all_passes = (
        normal_form(compiled(program, "<gathernest kernel>", lambda made: library_of(made).get_asm_str(), way))
        for way in (njit, njit_by_all_passes)
    )
    assert ours == all_passes
