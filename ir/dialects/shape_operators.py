"""The sizes that a reshape gives. Plain Python."""

import math
from collections.abc import Sequence
from typing import Any

from ..errors import ModelError
from ..semantics import DYNAMIC, Shape


def reshaped_sizes(shape: Shape, wanted: Sequence[Any], *, allow_zero: bool) -> Shape:
    """Return the sizes of a reshape's result, `DYNAMIC` where they are not known.

    Args:
        shape: sizes of the operand, `DYNAMIC` where not known.
        wanted: the requested sizes: numbers, or None for one that is not known; one may be -1, and is what is left.
        allow_zero: whether 0 is a size of 0, and not the operand's own.

    Raises:
        ModelError: the elements do not fit, or the sizes are none.

    Spec: ONNX Reshape-14, "data", "shape" and "allowzero"; OpenVINO Reshape-1, `special_zero` is its opposite.
    """
    numbers = [int(size) for size in wanted if size is not None]
    sizes = [DYNAMIC if size is None else int(size) for size in wanted]
    text = f"sizes {['?' if size is None else int(size) for size in wanted]}"
    if any(size < -1 for size in numbers) or numbers.count(-1) > 1:
        raise ModelError(f"{text} are no shape: at most one size is -1, and the others are 0 or more")
    if allow_zero and 0 in sizes and -1 in sizes:
        raise ModelError(f"{text} have both 0 and -1, so that any number would do for -1")
    if not allow_zero:
        for place, size in enumerate(sizes):
            if size == 0 and place >= len(shape):
                raise ModelError(f"{text}: the 0 in place {place} copies a size that rank {len(shape)} does not have")
            sizes[place] = shape[place] if size == 0 else size
    total = DYNAMIC if DYNAMIC in shape else math.prod(shape)
    if -1 in sizes:
        rest = [size for size in sizes if size != -1]
        if DYNAMIC in (*rest, total):
            return tuple(DYNAMIC if size == -1 else size for size in sizes)
        product = math.prod(rest)
        if product == 0 or total % product:
            raise ModelError(f"{text} do not fit the {total} elements of shape {shape}")
        return tuple(total // product if size == -1 else size for size in sizes)
    if DYNAMIC not in (*sizes, total) and math.prod(sizes) != total:
        raise ModelError(f"{text} do not fit the {total} elements of shape {shape}")
    return tuple(sizes)
