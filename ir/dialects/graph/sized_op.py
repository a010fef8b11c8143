"""The base class of operations that work out how large their result is, at load as when they run."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from xdsl.ir import SSAValue

from ...errors import ModelError
from ...semantics import DYNAMIC, Shape
from ..graph_op import Fields, GraphOp, Known, shape_of_value

# The elements of an operand, by its place, as far as they are known: an object array in which None is not known.
Elements = Callable[[int], np.ndarray | None]


class SizedOp(GraphOp):
    """An operation whose result may be larger than its operands, so that its sizes are looked at before it runs."""

    # The operands whose elements decide where others go, by their places; the others are only moved or computed with.
    CONTROLS: ClassVar[tuple[int, ...]] = ()

    @classmethod
    def sizes(cls, fields: Fields, shapes: Sequence[Shape], elements: Elements) -> Shape:
        """Return the sizes of the result for those of the operands, `DYNAMIC` where not known; raises ModelError."""
        raise NotImplementedError

    @classmethod
    def evaluate(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
        """Return the result, of that dtype and shape."""
        raise NotImplementedError

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        return cls.sizes(fields, [shape_of_value(value) for value in inputs], lambda place: known(inputs[place]))

    @classmethod
    def result_sizes(cls, fields: Fields, arrays: Sequence[np.ndarray]) -> Shape:
        return cls.sizes(fields, [array.shape for array in arrays], arrays.__getitem__)

    @classmethod
    def compute(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray]) -> np.ndarray:
        return cls.evaluate(fields, dtype, arrays, cls.result_sizes(fields, arrays))

    def carried(self, operands: Sequence[np.ndarray]) -> np.ndarray | None:
        if any(None in operands[place].flat for place in self.CONTROLS):
            return None
        return super().carried(operands)


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """Return the sizes that arrays of these shapes have when they are broadcast as NumPy does.

    Raises:
        ModelError: they do not broadcast.
    """
    rank = max(map(len, shapes))
    aligned = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result: list[int] = []
    for sizes in zip(*aligned, strict=True):
        known = {size for size in sizes if size not in (1, DYNAMIC)}
        if len(known) > 1:
            raise ModelError(f"shapes {' and '.join(map(shown, shapes))} do not broadcast")
        result.append(known.pop() if known else max(sizes) if DYNAMIC not in sizes else DYNAMIC)
    return tuple(result)


def shown(shape: Sequence[int]) -> str:
    """Return a shape as messages have it, with `?` for a size that is not known."""
    return f"[{', '.join('?' if size == DYNAMIC else str(size) for size in shape)}]"


def run_of(start: int, end: int, step: int, size: int) -> range:
    """Return the positions that a slice takes of an axis; raises ModelError for a step of 0.

    Spec: ONNX Slice-13, OpenVINO Slice-8: negative numbers count from the end once, and what is outside is clamped.
    """
    if step == 0:
        raise ModelError("the step of a slice is 0")
    if size == 0:
        return range(0)
    start, end = (number + size if number < 0 else number for number in (start, end))
    if step > 0:
        return range(min(max(start, 0), size), min(max(end, 0), size), step)
    return range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)
