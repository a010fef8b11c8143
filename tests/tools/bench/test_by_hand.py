"""C by hand: every variant gives the plain bytes and counts the indices out of range; nothing on how fast it is."""

from dataclasses import replace

import numpy as np
import pytest

from gathernest.ir.errors import DependencyError, GathernestError
from gathernest.tools.bench import by_hand
from gathernest.tools.bench.by_hand import ByHand, FusedByHand, UncheckedByHand
from gathernest.tools.bench.cases import Case
from gathernest.tools.bench.peers import expected

CASES = [
    *(Case(dtype, "scalars", (300,), (301,), dtype=dtype) for dtype in ("int8", "int16", "float32", "float64")),
    Case("batches", "batches", (3, 40), (3, 37), axis=1, batch_dims=1),
    Case("last axis", "axes", (5, 90), (37,), axis=1),
    Case("middle axis", "axes", (2, 3, 50, 16), (2, 21), axis=2, batch_dims=1),
    *(Case(f"rows of {bytes_} B", "rows", (40, bytes_), (90,), dtype="int8") for bytes_ in (3, 64, 100, 256)),
    Case("elements, first axis", "elements", (30, 37), (11, 37), "gather_elements"),
    Case("elements, last axis", "elements", (9, 30), (9, 21), "gather_elements", axis=1),
]
OPTIONS = ("-O1", *by_hand.OPTIONS[1:])


@pytest.fixture(scope="module", params=[ByHand, FusedByHand, UncheckedByHand])
def peer(request, program) -> ByHand:
    program("cc")
    found = request.param(OPTIONS)
    found.start(2)
    return found


@pytest.mark.thorough
def test_every_variant_gives_the_plain_bytes_and_counts_indices_out_of_range(peer, monkeypatch):
    monkeypatch.setattr("gathernest.tools.bench.by_hand.STREAMED_FROM_BYTES", 0)
    for case in (replace(case, into=into) for case in CASES for into in ("out", "new")):
        inputs, size = case.make(sets=1), case.data[case.axis]
        wanted = expected(case, inputs, 0)

        def results(case=case, inputs=inputs):
            for way, (call,) in peer.variants(case, inputs).items():
                inputs.out.fill(1)
                yield way, peer.result(call(), inputs.out)

        for _ in range(1 if isinstance(peer, UncheckedByHand) else 2):
            for way, got in results():
                assert got.tobytes() == wanted.tobytes(), f"{case.name}: {way}"
            inputs.indices[0].flat[::3] -= size  # from the end
        inputs.indices[0].flat[[5, -1]] = -size - 1, size
        for call in (calls[0] for calls in peer.variants(case, inputs).values() if peer.name != "c-unchecked"):
            with pytest.raises(GathernestError, match="indices out of range"):
                peer.result(call(), inputs.out)


@pytest.mark.thorough
def test_separate_check_leaves_the_result_untouched(program):
    program("cc")
    peer, case = ByHand(OPTIONS), CASES[2]
    inputs = case.make(sets=1)
    inputs.indices[0][7] = 300
    for (call,) in peer.variants(case, inputs).values():
        with pytest.raises(GathernestError, match="finds 1 indices out of range"):
            peer.result(call(), inputs.out)
        assert np.all(inputs.out == 1)


@pytest.mark.parametrize(
    "case",
    [
        Case("nd", "gather_nd", (9, 9), (5, 2), "gather_nd"),
        Case("gradient", "gradient", (9, 9), (5,), "gather_grad"),
        Case("int32", "rows", (9, 9), (5,), index_dtype="int32"),
        Case("cut", "elements", (9, 9), (5, 4), "gather_elements"),
    ],
)
def test_case_that_c_has_no_loop_for_is_rejected(case):
    assert ByHand.rejection(ByHand.__new__(ByHand), case) == "by_hand.c has no loop for it"


def test_a_program_that_writes_something_else_is_named(tmp_path, monkeypatch):
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho nonsense > "$2"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(GathernestError, match=f"^{compiler} makes a library that cannot be loaded .*; set CC$"):
        ByHand()


def test_compiler_that_is_not_there_is_named(gathernest, monkeypatch):
    monkeypatch.setenv("CC", "no-such-cc")
    with pytest.raises(DependencyError, match=r"needs a C compiler: no-such-cc is not on the PATH; .*, or set CC$"):
        ByHand()
    ended = gathernest("bench", "--peers", "c", "--quick")
    assert (ended.status, ended.out) == (1, "")
    assert "gathernest: error: C by hand needs a C compiler" in ended.err
