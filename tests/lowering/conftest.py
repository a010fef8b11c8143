"""What the tests of passes share: small gathers, and the interpreter as judge."""

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from gathernest.ir import reference
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.build import operator_module
from gathernest.ir.context import parse_module
from gathernest.ir.interpreter import interpret
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd, OperatorSpec
from gathernest.ir.semantics import Bounds
from gathernest.lowering.pipeline import run_pipeline

RNG = np.random.default_rng(7)


class Sample:
    """One gather with its arrays, and the bytes it must give."""

    def __init__(self, operator: OperatorSpec, data: np.ndarray, indices: np.ndarray, bounds: Bounds):
        self.operator = operator.normalized(data.shape, indices.shape)
        self.data, self.indices, self.bounds = data, indices, bounds
        self.expected = reference.run(self.operator, data, indices, bounds)

    def module(self, pipeline: str = "") -> ModuleOp:
        """Return the operator after a pipeline."""
        specs = ArraySpec.of(self.data), ArraySpec.of(self.indices)
        module = operator_module(self.operator, *specs, bounds=self.bounds)
        run_pipeline(module, pipeline)
        return module

    def check(self, module: ModuleOp) -> None:
        """Assert that a module, read back from its text, gives the expected bytes in any order of iterations."""
        for seed in (0, 1):
            out = np.full_like(self.expected, 99)
            interpret(parse_module(str(module)), self.data, self.indices, out, seed=seed)
            assert out.tobytes() == self.expected.tobytes()


def _draw(shape: tuple[int, ...], size: int, bounds: Bounds, dtype: type = np.int64) -> np.ndarray:
    low, high = (-size, size) if bounds is Bounds.ERROR else (-2 * size, 2 * size)
    if bounds is Bounds.UNCHECKED or np.dtype(dtype).kind == "u":
        low = 0
    if bounds is Bounds.UNCHECKED:
        high = size
    return RNG.integers(low, high, shape).astype(dtype)


def make_samples() -> dict[str, Sample]:
    """Return gathers of every operator, mode and layout that the passes treat differently."""
    data = RNG.random((2, 3, 4, 5), dtype=np.float32)
    samples = {f"gather-{bounds}": Sample(Gather(2, 1), data, _draw((2, 3, 2), 4, bounds), bounds) for bounds in Bounds}
    zero, error = Bounds.ZERO, Bounds.ERROR
    samples["gather-strided"] = Sample(Gather(1), data[:, ::-1, ::2], _draw((5,), 3, error)[::-1], error)
    samples["gather-uint8"] = Sample(Gather(1), data, _draw((4,), 3, zero, np.uint8), zero)
    samples["gather-int8-within"] = Sample(Gather(), RNG.random((200, 2)), _draw((6,), 100, error, np.int8), error)
    samples["gather-string"] = Sample(Gather(), np.array(["ab", "cdefg", ""]), np.array(1), error)
    samples["gather-nd"] = Sample(GatherNd(1), data, _draw((2, 6, 2), 3, zero), zero)
    samples["gather-elements"] = Sample(GatherElements(1), data, _draw((2, 6, 2, 5), 3, error), error)
    small = np.arange(2 * 2 * 3 * 4).reshape(2, 2, 3, 4)
    samples["gather-elements-apart"] = Sample(GatherElements(3), small, _draw((2, 1, 3, 5), 4, error), error)
    return samples


SAMPLES = make_samples()


@pytest.fixture(params=list(SAMPLES))
def sample(request: pytest.FixtureRequest) -> Sample:
    return SAMPLES[request.param]


@pytest.fixture
def samples() -> dict[str, Sample]:
    return SAMPLES


@pytest.fixture
def parse() -> Callable[[str], ModuleOp]:
    return parse_module
