"""C by hand: every variant gives the plain bytes and counts the indices out of range; nothing on how fast it is."""

from dataclasses import replace

import numpy as np
import pytest

from gathernest.ir.errors import DependencyError, GathernestError
from gathernest.tools.bench import by_hand
from gathernest.tools.bench.by_hand import (
    CHECKS,
    EARLY,
    FUSED,
    MORE,
    SEPARATE,
    UNCHECKED,
    Beside,
    Variant,
    as_markdown,
    check_bytes,
    compare,
    sizes_of,
    unchecked_variants,
)
from gathernest.tools.bench.cases import Case, chosen
from gathernest.tools.console.terminal import UsageError

CASES = [
    *(Case(dtype, "scalars", (300,), (301,), dtype=dtype) for dtype in ("int8", "int16", "float32", "float64")),
    Case("batches", "batches", (3, 40), (3, 37), axis=1, batch_dims=1),
    Case("last axis", "axes", (5, 90), (37,), axis=1),
    Case("middle axis", "axes", (2, 3, 50, 16), (2, 21), axis=2, batch_dims=1),
    *(Case(f"rows of {bytes_} B", "rows", (40, bytes_), (90,), dtype="int8") for bytes_ in (3, 64, 100, 256)),
    Case("elements, first axis", "elements", (30, 37), (11, 37), "gather_elements"),
    Case("elements, last axis", "elements", (9, 30), (9, 21), "gather_elements", axis=1),
]


@pytest.fixture(scope="module")
def library(program):
    program("cc")
    return by_hand.built(("-O1", *by_hand.OPTIONS[1:]))


@pytest.mark.thorough
def test_every_variant_gives_the_plain_bytes_and_counts_indices_out_of_range(library, monkeypatch):
    monkeypatch.setattr("gathernest.tools.bench.by_hand.STREAMED_FROM_BYTES", 0)
    for case in CASES:
        inputs, sizes = case.make(sets=1), sizes_of(case)
        assert sizes is not None
        picks = inputs.indices[0]
        ways = [
            replace(variant, check=check)
            for fresh, threads in ((False, 1), (True, 2))
            for variant in unchecked_variants(library, case, sizes, inputs, threads, fresh=fresh)
            for check in CHECKS
        ]
        check_bytes(library, case, sizes, inputs, ways)
        picks.flat[::3] -= case.data[case.axis]  # from the end
        checked = [variant for variant in ways if variant.check != UNCHECKED]
        check_bytes(library, case, sizes, inputs, checked)
        picks.flat[[5, -1]] = -case.data[case.axis] - 1, case.data[case.axis]
        for variant in checked:
            assert library.call(library.job(sizes, inputs, 0, variant))() >= 2, f"{case.name}, {variant}"


@pytest.mark.thorough
def test_separate_check_leaves_the_result_untouched(library):
    case = CASES[2]
    inputs, sizes = case.make(sets=1), sizes_of(case)
    inputs.indices[0][7] = 300
    assert library.call(library.job(sizes, inputs, 0, Variant("loop", check=SEPARATE)))() == 1
    assert np.all(inputs.out == 1)


@pytest.mark.thorough
def test_result_that_is_given_is_compared_with_c_that_checks_before_it_writes(library):
    (beside,) = compare(CASES[2:3], rounds=1, threads=1, advance=lambda _: None)
    assert {mode: beside.fastest[mode].check for mode in ("out=", "unchecked", EARLY)} == {
        "out=": SEPARATE,
        "unchecked": UNCHECKED,
        EARLY: FUSED,
    }
    assert beside.fastest["new"].fresh
    assert beside.fastest["new"].check in (SEPARATE, FUSED)


def test_cases_that_only_by_hand_has_can_be_chosen():
    assert [case.name for case in chosen(["batches-of-sc*"], [], MORE)] == ["batches-of-scalars"]
    with pytest.raises(UsageError, match="no case is called 'batches-of-scalars'"):
        chosen(["batches-of-scalars"], [])


@pytest.mark.parametrize(
    "case",
    [
        Case("nd", "gather_nd", (9, 9), (5, 2), "gather_nd"),
        Case("gradient", "gradient", (9, 9), (5,), "gather_grad"),
        Case("int32", "rows", (9, 9), (5,), index_dtype="int32"),
        Case("cut", "elements", (9, 9), (5, 4), "gather_elements"),
    ],
)
def test_case_that_c_has_no_loop_for_is_left_out(case):
    assert sizes_of(case) is None


def test_a_program_that_writes_something_else_is_named(tmp_path, monkeypatch):
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho nonsense > "$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(GathernestError, match=f"^{compiler} makes a library that cannot be loaded .*; set CC$"):
        by_hand.built()


def test_compiler_that_is_not_there_is_named(gathernest, monkeypatch):
    monkeypatch.setenv("CC", "no-such-cc")
    with pytest.raises(DependencyError, match=r"needs a C compiler: no-such-cc is not on the PATH; .*, or set CC$"):
        by_hand.built()
    ended = gathernest("bench", "--by-hand", "--quick")
    assert (ended.status, ended.out) == (1, "")
    assert "gathernest: error: C by hand needs a C compiler" in ended.err


def test_markdown_has_a_row_a_case_and_marks_where_c_is_faster():
    ways = {mode: Variant("words", near=64, threads=2, check="fused check") for mode in ("out=", "new", "unchecked")}
    times, ratios = dict.fromkeys(ways, 12.0), {"out=": 0.5, "new": 2.0, "unchecked": 1.0}
    table = as_markdown([Beside(CASES[2], ways, times, times, ratios, 1.5, 0.25)], 2, 7).splitlines()
    ways_shown = "12.0 µs | 12.0 µs | words, 64 ahead, fused check, 2 threads"
    shown = f"{ways_shown} | **0.50×** | 2.00× | 1.00× | 1.50× | **0.25×** |"
    assert table[2] == f"| float32 | 300xf32 by 301xi64 | {shown}"
    assert table[3].startswith("| geometric mean |")
