"""The versions of operators as their documents state them: a row of `VERSIONS` each, by name. Plain Python.

`gathernest.ops` makes a function of each, whose docstring is `Version.doc`.
"""

import re
from dataclasses import dataclass
from types import MappingProxyType

from .operator_spec import Gather, GatherElements, GatherNd
from .semantics import Bounds


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an operator.

    Attributes:
        name: such as "onnx.Gather-13".
        operator: the rules that it has.
        types: the data types that its document allows.
        differs: how it differs from its neighbours.
        example: the arguments of a call, and its result.
        bounds: the rule for an index outside of the axis.
        options: the names of its attributes.
        required: the attributes without a default.
        has_negatives: whether negative indices count from the end; otherwise they are outside.
        flattens: whether its result has one dimension in place of the batch dimensions.
    """

    name: str
    operator: type[Gather | GatherNd | GatherElements]
    types: str
    differs: str
    example: tuple[str, str]
    bounds: Bounds = Bounds.ERROR
    options: tuple[str, ...] = ("axis",)
    required: tuple[str, ...] = ()
    has_negatives: bool = True
    flattens: bool = False

    @property
    def doc(self) -> str:
        """The docstring: what it does, arguments, result, errors, types, neighbours and an example."""
        indices, summary, returns = _SENTENCES[self.operator]
        if self.operator is Gather and "batch_dims" in self.options:
            summary = _WITHOUT_NEGATIVES if not self.has_negatives else _WITH_ZEROS
            returns = "An array of shape `data.shape[:axis] + indices.shape[batch_dims:] + data.shape[axis+1:]`."
        if self.operator is GatherNd:
            shape = "[batch_dims+k:]`" if self.options else "[k:]`"
            merged = ", with its batch dimensions made one" if self.flattens else ""
            returns = f"An array of shape `indices.shape[:-1] + data.shape{shape}{merged}."
        raises = "an index is outside [-size, size-1]." if self.has_negatives else "an index is outside [0, size-1]."
        filled = _SECTIONS.format(
            summary=summary,
            indices=indices,
            attributes="\n        ".join(_OPTIONS[self.operator, option] for option in self.options),
            returns=returns,
            raises="never." if self.bounds is Bounds.ZERO else raises,
            types=self.types,
            differs=self.differs,
            name=self.name,
            call=self.example[0],
            result=self.example[1],
            spec=self.name.replace("onnx.", "ONNX ").replace("openvino.", "OpenVINO "),
        )
        return re.sub(r"\n +\n(?= +out:)", "\n", filled)


_SECTIONS = """{summary}

    Args:
        data: any shape of rank 1 or more, any dtype.
        indices: {indices}; any integer dtype.
        {attributes}
        out: where to put the result.

    Returns:
        {returns}

    Raises:
        BoundsError: {raises}
        InvalidGatherError: the attributes do not fit the shapes.

    Types: {types}

    Differs: {differs}

    Example:
        >>> gn.ops["{name}"]{call}.tolist()
        {result}

    Spec: {spec}.
    """
_WITHOUT_NEGATIVES = "Gather slices as TensorFlow's Gather does: no index is negative."
_WITH_ZEROS = "Gather slices; negative indices count from the end, any other outside gives zeros."
# Each kind of operator has the shape of its indices, a summary, and the shape of its result.
_SENTENCES = {
    Gather: (
        "any shape",
        "Gather entries of the axis dimension; negative indices count from the end.",
        "An array of rank `rank(indices) + rank(data) - 1`.",
    ),
    GatherNd: (
        "(batch..., any shape, k), with 1 <= k <= rank(data) - batch_dims",
        "Gather slices by tuples of k indices along the last dimension of indices.",
        "",
    ),
    GatherElements: (
        "of data's rank, not larger than data off the axis",
        "Gather elements, each by an index of its own along the axis; negative indices count from the end.",
        "An array of the shape of indices.",
    ),
}
_AXIS = "axis: in [-rank(data), rank(data)-1]; an int, a 0-D array or an array of one element."
_OPTIONS = {
    (Gather, "axis"): _AXIS,
    (GatherElements, "axis"): _AXIS,
    (Gather, "batch_dims"): "batch_dims: negative values count from the rank of indices; not above axis.",
    (GatherNd, "batch_dims"): "batch_dims: in [0, min(rank(data), rank(indices))-1].",
}

_ONNX_TYPES = "the document allows all tensor types{}, and indices of {}; here any dtype, and any integer dtype."
_WITHOUT_BFLOAT16 = _ONNX_TYPES.format(" but bfloat16", "int32 and int64")
_WITH_BFLOAT16 = _ONNX_TYPES.format("", "int32 and int64")
_INT64_WITHOUT_BFLOAT16 = _ONNX_TYPES.format(" but bfloat16", "int64")
_INT64_WITH_BFLOAT16 = _ONNX_TYPES.format("", "int64")
_OPENVINO_TYPES = "the document allows every supported type, and indices of any integer type; here any dtype."

_ENTRIES = "([[1, 2], [3, 4]], [0, -1], axis=1)", "[[1, 2], [3, 4]]"
_TUPLES = "([[0, 1], [2, 3]], [[0, 0], [1, 1]])", "[0, 3]"
_BATCHES = "([[[5, 6]], [[7, 8]]], [[[1]], [[0]]], batch_dims=2)"
_EACH = "([[1, 2], [3, 4]], [[0, 0], [1, 0]], 1)", "[[1, 1], [4, 3]]"

_ROWS = (
    Version(
        *("openvino.Gather-7", Gather, _OPENVINO_TYPES),
        "openvino.Gather-8 takes negative indices and gives zeros for indices outside; onnx.Gather has no batch_dims.",
        ("([[1, 2], [3, 4]], [[0, 0], [1, 0]], 1, batch_dims=1)", "[[1, 1], [4, 3]]"),
        options=("axis", "batch_dims"),
        required=("axis",),
        has_negatives=False,
    ),
    Version(
        *("openvino.Gather-8", Gather, _OPENVINO_TYPES),
        "openvino.Gather-7 rejects negative indices; openvino.Gather-7 and onnx.Gather reject indices outside.",
        ("([1, 2, 3], [0, -1, 7], 0)", "[1, 3, 0]"),
        Bounds.ZERO,
        options=("axis", "batch_dims"),
        required=("axis",),
    ),
    Version(
        *("onnx.Gather-1", Gather, _WITHOUT_BFLOAT16),
        "its document does not speak of negative indices; they are taken here, as by ONNX Runtime.",
        _ENTRIES,
    ),
    Version(
        *("onnx.Gather-11", Gather, _WITHOUT_BFLOAT16),
        "its document allows negative indices, which the document of onnx.Gather-1 does not mention.",
        _ENTRIES,
    ),
    Version("onnx.Gather-13", Gather, _WITH_BFLOAT16, "as onnx.Gather-11, with bfloat16.", _ENTRIES),
    Version(
        *("onnx.GatherND-11", GatherNd, _INT64_WITHOUT_BFLOAT16),
        "without batch_dims, which come with onnx.GatherND-12.",
        _TUPLES,
        options=(),
    ),
    Version(
        *("onnx.GatherND-12", GatherNd, _INT64_WITHOUT_BFLOAT16),
        "onnx.GatherND-11 has no batch_dims.",
        ("([[0, 1], [2, 3]], [[1], [0]], batch_dims=1)", "[1, 2]"),
        options=("batch_dims",),
    ),
    Version(
        *("onnx.GatherND-13", GatherNd, _INT64_WITH_BFLOAT16),
        "as onnx.GatherND-12, with bfloat16.",
        _TUPLES,
        options=("batch_dims",),
    ),
    Version(
        *("openvino.GatherND-5", GatherNd, _OPENVINO_TYPES),
        "the batch dimensions of its result are made one, where openvino.GatherND-8 and ONNX keep them.",
        (_BATCHES, "[6, 7]"),
        options=("batch_dims",),
        flattens=True,
    ),
    Version(
        *("openvino.GatherND-8", GatherNd, _OPENVINO_TYPES),
        "keeps the batch dimensions that openvino.GatherND-5 makes one; otherwise as onnx.GatherND-13.",
        (_BATCHES, "[[6], [7]]"),
        options=("batch_dims",),
    ),
    Version(
        *("onnx.GatherElements-11", GatherElements, _WITHOUT_BFLOAT16),
        "numpy.take_along_axis broadcasts; this does not, but takes indices smaller than data off the axis.",
        _EACH,
    ),
    Version(
        *("onnx.GatherElements-13", GatherElements, _WITH_BFLOAT16), "as onnx.GatherElements-11, with bfloat16.", _EACH
    ),
    Version(
        *("openvino.GatherElements-6", GatherElements, _OPENVINO_TYPES),
        "the axis must be given; otherwise as onnx.GatherElements-13.",
        _EACH,
        required=("axis",),
    ),
)
VERSIONS = MappingProxyType({version.name: version for version in _ROWS})
