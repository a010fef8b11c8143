"""What the tests of passes share: small gathers, and the interpreter as judge."""

import zlib
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from gathernest.ir import reference
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.modules.context import make_context, parse_module, print_generic, verify_module
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import (
    Gather,
    GatherElements,
    GatherMax,
    GatherMean,
    GatherNd,
    GatherReduce,
    GatherWeighted,
    GatherWeightedMean,
    Gradient,
    OperatorSpec,
)
from gathernest.ir.semantics import Bounds
from gathernest.lowering.pipeline import parse_passes, run_passes

RNG = np.random.default_rng(7)


class Sample:
    """One gather or gradient with its arrays, and the bytes it must give.

    Args:
        source: data of a gather, grad of a gradient.
        scale, data_shape: of a gradient; none of a gather.
    """

    def __init__(
        self,
        operator: OperatorSpec,
        source: np.ndarray,
        indices: np.ndarray,
        bounds: Bounds,
        *,
        scale: float | None = None,
        data_shape: tuple[int, ...] = (),
    ):
        self.operator = operator.normalized(data_shape if scale else source.shape, indices.shape)
        self.data, self.indices, self.bounds = source, indices, bounds
        self.gradient = None if scale is None else Gradient(scale)
        if scale is None:
            self.expected = reference.run(self.operator, source, indices, bounds)
        else:
            self.expected = reference.gradient(self.operator, source, indices, data_shape, bounds, scale)
        self.made: dict[tuple[str, ...], ModuleOp] = {}
        self.checked: set[str] = set()
        self.read_back: set[str] = set()

    def module(self, pipeline: str = "") -> ModuleOp:
        """Return the operator after a pipeline."""
        return self._made(tuple(map(str, parse_passes(pipeline)))).clone()

    def _made(self, passes: tuple[str, ...]) -> ModuleOp:
        """Return the operator after some passes; each pass runs once on what those before it made."""
        if passes not in self.made:
            if passes:
                module = self._made(passes[:-1]).clone()
                run_passes(module, passes[-1], make_context())
            else:
                source, result = ArraySpec.of(self.data), ArraySpec.of(self.expected)
                data, out = (source, None) if self.gradient is None else (result, source)
                given = {"bounds": self.bounds, "out": out, "gradient": self.gradient}
                module = operator_module(self.operator, data, ArraySpec.of(self.indices), **given)
            self.made[passes] = module
        return self.made[passes]

    def check(self, module: ModuleOp) -> None:
        """Assert that a module is valid, and gives the expected bytes in an order of iterations of its own.

        A text that did before does again, so it is not run twice.
        """
        text = str(module)
        if text in self.checked:
            return
        verify_module(module)
        out = np.full_like(self.expected, 99)
        interpret(module, self.data, self.indices, out, seed=zlib.crc32(text.encode()))
        assert out.tobytes() == self.expected.tobytes()
        self.checked.add(text)

    def check_reads_back(self, module: ModuleOp) -> None:
        """Assert that a module's text in either syntax reads back as the same module.

        A text that did before does again, so it is not read twice.
        """
        text = str(module)
        if text in self.read_back:
            return
        assert str(parse_module(text)) == text
        assert str(parse_module(print_generic(module))) == text
        self.read_back.add(text)


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
    two = data[:, :2].copy()
    samples = {f"gather-{bounds}": Sample(Gather(2, 1), two, _draw((2, 3, 2), 4, bounds), bounds) for bounds in Bounds}
    zero, error = Bounds.ZERO, Bounds.ERROR
    samples["gather-strided"] = Sample(Gather(1), data[:, ::-1, ::2], _draw((5,), 3, error)[::-1], error)
    samples["gather-uint8"] = Sample(Gather(1), data, _draw((4,), 3, zero, np.uint8), zero)
    samples["gather-int8-within"] = Sample(Gather(), RNG.random((200, 2)), _draw((6,), 100, error, np.int8), error)
    samples["gather-string"] = Sample(Gather(), np.array(["ab", "cdefg", ""]), np.array(1), error)
    samples["gather-nd"] = Sample(GatherNd(1), data, _draw((2, 6, 2), 3, zero), zero)
    samples["gather-elements"] = Sample(GatherElements(1), data, _draw((2, 6, 2, 5), 3, error), error)
    small = np.arange(2 * 2 * 3 * 4).reshape(2, 2, 3, 4)
    samples["gather-elements-apart"] = Sample(GatherElements(3), small, _draw((2, 1, 3, 5), 4, error), error)
    return samples | make_gradient_samples() | make_reduction_samples()


def make_reduction_samples() -> dict[str, Sample]:
    """Return reductions that check indices and that skip some, maxima of strided rows, and sums of other numbers."""
    data = RNG.standard_normal((5, 2, 7), dtype=np.float32)
    error, zero = Bounds.ERROR, Bounds.ZERO
    samples = {f"reduce-{mode}": Sample(GatherReduce(), data, _draw((3, 4), 5, mode), mode) for mode in (error, zero)}
    samples |= {f"mean-{mode}": Sample(GatherMean(), data, _draw((3, 4), 5, mode), mode) for mode in (error, zero)}
    samples["max-strided"] = Sample(GatherMax(), data[:, ::-1, ::2], _draw((2, 3, 3), 5, error)[::-1], error)
    places = np.array([[[0, 3, 5], [4, 2, 0]], [[-1, 1, 7], [9, 1, 7]]], np.int32)
    places[..., 1:] = places[..., 1:].astype(np.float32).view(np.int32)
    quantised = RNG.integers(0, 256, (5, 3)).astype(np.uint8)
    samples["reduce-weighted"] = Sample(GatherWeighted(), quantised, places, zero)
    samples["mean-weighted"] = Sample(GatherWeightedMean(), quantised, places, zero)
    waves = (RNG.random((5, 3)) + 1j * RNG.random((5, 3))).astype(np.complex64)
    samples["reduce-complex"] = Sample(GatherReduce(), waves, _draw((3, 2), 5, zero), zero)
    return samples


def make_gradient_samples() -> dict[str, Sample]:
    """Return gradients of every operator, and of every kind of number that is added differently."""
    shape, two, error = (2, 3, 4, 5), (2, 2, 4, 5), Bounds.ERROR
    grad = RNG.standard_normal((2, 2, 6, 5), dtype=np.float32)
    samples = {
        f"grad-{bounds}": Sample(Gather(2, 1), grad, _draw((2, 6), 4, bounds), bounds, scale=1.0, data_shape=two)
        for bounds in Bounds
    }
    reversed_grad = grad[:, ::-1, ::2]
    rows = np.array([[1, -1, 1], [0, 0, 3]])
    samples["grad-strided"] = Sample(Gather(2, 1), reversed_grad, rows, error, scale=0.1, data_shape=two)
    small = RNG.integers(-128, 128, (7, 2)).astype(np.uint8)
    samples["grad-uint8"] = Sample(Gather(), small, np.arange(7) % 3, error, scale=3.0, data_shape=(3, 2))
    waves = (RNG.random(9) + 1j * RNG.random(9)).astype(np.complex64)
    samples["grad-complex"] = Sample(Gather(), waves, np.arange(9) % 4, error, scale=-0.5, data_shape=(4,))
    tuples = _draw((2, 7, 2), 3, Bounds.ZERO)
    slices = RNG.random((2, 7, 5))
    samples["grad-nd"] = Sample(GatherNd(1), slices, tuples, Bounds.ZERO, scale=2.0, data_shape=shape)
    each = _draw((2, 6, 2, 5), 3, error)
    samples["grad-elements"] = Sample(
        GatherElements(1), RNG.random(each.shape), each, error, scale=1.0, data_shape=shape
    )
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
