"""What upstream makes of the last stage runs to the same bytes as the reference, and counts the same indices."""

from dataclasses import dataclass

import llvmlite.binding as llvm
import numpy as np
import pytest

from gathernest.ir.interpreters.argument_views import bind_arguments
from gathernest.ir.interpreters.graph import find_function
from gathernest.lowering.upstream.c_call import C_FORM, c_call


@dataclass
class Compiled:
    """Machine code of the stages that upstream lowered; `errors` has what it says against the others."""

    engine: llvm.ExecutionEngine
    errors: dict[str, str]

    def run(self, case, lowering, stage: int) -> tuple[int, np.ndarray]:
        """Call a stage on views of the operator's arrays; return what it returns (0 for nothing) and out."""
        entry, out = f"{lowering.entry}_{stage}", case.empty_out()
        assert entry not in self.errors, self.errors[entry]
        arrays = [case.data, out] if case.constant else [case.data, case.indices, out]
        function = find_function(lowering.kept["loops"], "gather")
        views, scales = bind_arguments(function, arrays)
        address = self.engine.get_function_address(f"{C_FORM}{entry}")
        return c_call(address, function.function_type, views, [scale for scale, _ in scales])(), out


@pytest.fixture(scope="session")
def compiled(upstream, lowerings) -> Compiled:
    """Every stage of every gather lowered, translated and compiled in one go."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    entries = {
        f"{lowering.entry}_{stage}": text
        for lowering in lowerings.values()
        for stage, (_, text) in enumerate(lowering.strict)
    }
    modules, errors = upstream.to_llvm_ir(entries)
    machine = llvm.Target.from_default_triple().create_target_machine(opt=0)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    for text in modules.values():
        engine.add_module(llvm.parse_assembly(text))
    engine.finalize_object()
    return Compiled(engine, errors)


def _bytes(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array.view(f"V{array.itemsize}")).tobytes()


def _results(case, lowerings, compiled: Compiled) -> dict[str, tuple[int, bytes]]:
    """Return (indices outside, bytes of out) of every stage."""
    lowering = lowerings[case.name]
    runs = {name: compiled.run(case, lowering, stage) for stage, (name, _) in enumerate(lowering.strict)}
    return {name: (outside, _bytes(out)) for name, (outside, out) in runs.items()}


def test_llvm_ir_of_every_stage_gives_the_bytes_of_the_reference(good_case, lowerings, compiled) -> None:
    expected = (0, _bytes(good_case.expected()))
    assert [name for name, result in _results(good_case, lowerings, compiled).items() if result != expected] == []


def test_llvm_ir_of_every_stage_counts_the_indices_outside(bad_case, lowerings, compiled) -> None:
    results = _results(bad_case, lowerings, compiled)
    assert {name: outside for name, (outside, _) in results.items()} == dict.fromkeys(results, bad_case.outside())


def test_llvm_ir_of_every_stage_leaves_out_untouched_on_an_index_outside(bad_case, lowerings, compiled) -> None:
    untouched = _bytes(bad_case.empty_out())
    assert {out for _, out in _results(bad_case, lowerings, compiled).values()} == {untouched}
