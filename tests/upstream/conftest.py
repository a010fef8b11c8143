"""The oracle that is not ours: upstream MLIR parses, verifies, lowers and runs every stage of a set of gathers.

`mlir-opt` and `mlir-translate` must be of the LLVM that llvmlite carries, because llvmlite reads the LLVM IR. Without
them every test of this folder is skipped. All modules go through few processes, each a chunk of one split input.

Our dialect is unknown to upstream. So every text is checked as it is printed with `--allow-unregistered-dialect`, and
from `lower-nest-to-loops` on once more without that flag and without our discardable attributes (`gather.view`,
`gather.loops`, ...), so that an operation of ours which was left would be rejected.
"""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from gathernest.lowering.upstream.machine_code import LLVM_MAJOR, LOWER_TO_LLVM

SPLIT = "// -----\n"


@dataclass(frozen=True)
class Upstream:
    """mlir-opt and mlir-translate, run on many named modules at once."""

    mlir_opt: str
    mlir_translate: str

    def check(self, modules: Mapping[str, str], *options: str) -> dict[str, str]:
        """Return what upstream says against each module; the modules that it takes are left out."""
        return self._run(self.mlir_opt, modules, *options)[1]

    def print(self, modules: Mapping[str, str], *options: str) -> dict[str, str]:
        """Return upstream's own text of modules that it takes."""
        texts, errors = self._run(self.mlir_opt, modules, *options)
        assert not errors, errors
        return texts

    def to_llvm_ir(self, modules: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Return LLVM IR, and what upstream says against the modules that have none."""
        lowered, errors = self._run(self.mlir_opt, modules, *LOWER_TO_LLVM)
        translated, more = self._run(self.mlir_translate, lowered, "--mlir-to-llvmir", f"--output-split-marker={SPLIT}")
        return translated, errors | more

    def _run(self, tool: str, modules: Mapping[str, str], *options: str) -> tuple[dict[str, str], dict[str, str]]:
        first_lines: dict[int, str] = {}
        line = 1
        for name, text in modules.items():
            first_lines[line] = name
            line += text.count("\n") + 1
        done = subprocess.run(
            [tool, "--split-input-file", *options, "-"],
            input=SPLIT.join(modules.values()),
            capture_output=True,
            text=True,
            timeout=300,
        )
        errors: dict[str, str] = {}
        for message in re.split(r"^(?=<stdin>:\d+:\d+: error)", done.stderr, flags=re.MULTILINE):
            if place := re.match(r"<stdin>:(\d+):", message):
                name = first_lines[max(start for start in first_lines if start <= int(place[1]))]
                errors[name] = errors.get(name, "") + message
        assert errors or done.returncode == 0, f"{tool} failed with {done.returncode}: {done.stderr[-2000:]}"
        outputs = done.stdout.split(SPLIT)
        assert len(outputs) == len(modules), f"{tool} gave {len(outputs)} outputs for {len(modules)} modules"
        return {name: text for name, text in zip(modules, outputs, strict=True) if name not in errors}, errors


@pytest.fixture(scope="session")
def upstream(program) -> Upstream:
    return Upstream(*(program(name, major=LLVM_MAJOR) for name in ("mlir-opt", "mlir-translate")))
