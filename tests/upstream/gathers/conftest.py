"""The gathers that upstream is asked about, and the stages of their lowering.

Every bounds mode and index dtype, both pipelines, ranks, unit and zero sizes, element widths, layouts, schedules.
"""

import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import gathernest as gn
from gathernest.ir import reference
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.modules.context import make_context, print_generic
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import (
    Gather,
    GatherElements,
    GatherMax,
    GatherMean,
    GatherNd,
    GatherReduce,
    Gradient,
    OperatorSpec,
)
from gathernest.ir.semantics import Bounds
from gathernest.lowering.pipeline import parse_passes
from gathernest.lowering.registry import default_pipeline
from gathernest.lowering.upstream.machine_code import strict_module


@dataclass(frozen=True)
class Case:
    """One gather with the schedule that it is lowered by, or one gradient, whose `data` is then grad."""

    name: str
    operator: OperatorSpec
    data: np.ndarray
    indices: np.ndarray
    bounds: Bounds
    schedule: str = ""
    erase_sizes: bool = True
    constant: bool = False
    out: np.ndarray | None = field(default=None)
    gradient: Gradient | None = None
    table_shape: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of what the indices point into."""
        return self.table_shape if self.gradient else self.data.shape

    def empty_out(self) -> np.ndarray:
        """Return where the result goes, every byte of it 0xA5."""
        operator = self.operator.normalized(self.shape, self.indices.shape)
        shape = self.shape if self.gradient else operator.result_shape(self.shape, self.indices.shape)
        out = aligned(shape, self.data.dtype) if self.out is None else self.out
        out.view(f"V{out.dtype.itemsize}")[...] = np.void(b"\xa5" * out.dtype.itemsize)
        return out

    def outside(self) -> int:
        """Return how many indices (tuples of a gather_nd) are out of range."""
        operator = self.operator.normalized(self.shape, self.indices.shape)
        sizes = np.array([self.shape[axis] for axis in operator.axes(self.indices.shape)], object)
        values = self.indices.astype(object)
        outside = (values < -sizes) | (values >= sizes)
        return int(outside.any(axis=-1).sum() if isinstance(operator, GatherNd) else outside.sum())

    def expected(self) -> np.ndarray:
        """Return the result by the plain NumPy reference."""
        if self.gradient:
            rest = self.bounds, self.gradient.scale
            return reference.gradient(self.operator, self.data, self.indices, self.shape, *rest)
        if self.operator.adds:
            return reference.run(self.operator, self.data, self.indices, self.bounds)
        opaque = self.data.view(f"V{self.data.dtype.itemsize}")
        return reference.run(self.operator, opaque, self.indices, self.bounds)


def aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an uninitialised array whose address is a multiple of 64, as vector moves may want it."""
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return np.ndarray(shape, dtype, raw[start:].data)


def data_of(text: str, layout: str = "plain") -> np.ndarray:
    """Return random bytes as an array such as `2x5xf32`; `layout` as in `lay_out`."""
    spec = ArraySpec.parse(text)
    array = aligned(spec.shape, spec.dtype)
    raw = np.random.default_rng(zlib.crc32(text.encode())).bytes(array.nbytes)
    array.view(f"V{array.itemsize}")[...] = np.ndarray(array.shape, f"V{array.itemsize}", bytearray(raw) or None)
    return lay_out(array, layout)


def lay_out(array: np.ndarray, layout: str) -> np.ndarray:
    """Return an array of the same shape whose elements lie otherwise."""
    if layout == "plain":
        return array
    if layout == "broadcast":
        return np.broadcast_to(array[:1], array.shape)
    if layout == "reversed":
        return array[(slice(None, None, -1),) * array.ndim]
    if layout == "transposed":
        return np.ascontiguousarray(array.T).T
    if layout == "stepped":
        wide = aligned(tuple(2 * size for size in array.shape), array.dtype)[(slice(None, None, 2),) * array.ndim]
    elif layout == "padded":
        wide = aligned((*array.shape[:-1], array.shape[-1] + 3), array.dtype)[..., : array.shape[-1]]
    else:
        assert layout == "field", layout
        record = np.dtype({"names": ["id", "it"], "formats": ["V2", array.dtype], "itemsize": array.itemsize + 4})
        wide = aligned(array.shape, record)["it"]
    wide[...] = array
    return wide


def indices_of(text: str, values: str, size: int, layout: str = "plain") -> np.ndarray:
    """Return indices such as `2x3xi64` into an axis of `size`: all `inside`, some `outside`, or `unwrapped` (>= 0)."""
    spec = ArraySpec.parse(text)
    limits = np.iinfo(spec.dtype)
    allowed = {"inside": (-size, size - 1), "outside": (limits.min, limits.max), "unwrapped": (0, size - 1)}[values]
    low, high = max(limits.min, allowed[0]), min(limits.max, allowed[1])
    rng = np.random.default_rng(zlib.crc32(f"{text} {values}".encode()))
    result = rng.integers(low, high, spec.shape, spec.dtype, endpoint=True)
    if values == "outside":
        near = np.array([low, high, size, size - 1, -size, -size - 1, 0], object)
        near = np.clip(near, low, high).astype(spec.dtype)[: result.size]
        result.reshape(-1)[: len(near)] = near
    return lay_out(result, layout)


def gather_case(
    name: str,
    data: str,
    indices: str,
    bounds: str,
    *,
    axis: int = 0,
    batch_dims: int = 0,
    operator: OperatorSpec | None = None,
    values: str = "",
    layouts: tuple[str, str, str] = ("plain", "plain", "plain"),
    **rest: Any,
) -> Case:
    """Return a case; `layouts` are those of data, indices and out."""
    array = data_of(data, layouts[0])
    wanted = operator or Gather(axis, batch_dims)
    shape = ArraySpec.parse(indices).shape
    normal = wanted.normalized(array.shape, shape)
    size = min(array.shape[axis] for axis in normal.axes(shape))
    default = {"error": "inside", "unchecked": "unwrapped"}.get(bounds, "outside")
    index_values = indices_of(indices, values or default, size, layouts[1])
    out = lay_out(aligned(normal.result_shape(array.shape, shape), array.dtype), layouts[2])
    return Case(name, wanted, array, index_values, Bounds(bounds), out=out, **rest)


PARALLEL = str(gn.Schedule.parse("tile-loops{loops=indices sizes=4},parallelize-loops{loops=outer,indices_o}"))
INDEX_DTYPES = ("i8", "ui8", "i32", "ui32", "i64", "ui64")
LAYOUTS = {
    "transposed": ("transposed", "plain", "plain"),
    "reversed": ("reversed", "reversed", "plain"),
    "stepped": ("stepped", "stepped", "stepped"),
    "padded": ("padded", "padded", "padded"),
    "broadcast": ("broadcast", "broadcast", "plain"),
    "field": ("field", "plain", "plain"),
    "out-reversed": ("plain", "plain", "reversed"),
    "out-transposed": ("plain", "plain", "transposed"),
}
SCHEDULES = {
    "tile-inner": "tile-loops{loops=inner sizes=3}",
    "tile-two": "tile-loops{loops=indices,inner sizes=4,2}",
    "tile-twice": "tile-loops{loops=indices,indices_i sizes=4,2}",
    "interchange": "interchange-loops{order=indices,batch,inner,outer}",
    "tile-interchange": "tile-loops{loops=indices,inner sizes=4,3},"
    "interchange-loops{order=inner_o,indices_o,batch,outer,indices_i,inner_i}",
    "parallel-all": "parallelize-loops{loops=batch,outer,indices,inner}",
    "vectors": "vectorize-inner{lanes=4}",
    "vectors-stream": "vectorize-inner{lanes=2},stream-stores",
    "hoist-lanes": "tile-loops{loops=batch,indices sizes=2,4},"
    "interchange-loops{order=batch_o,indices_o,outer,batch_i,inner,indices_i},hoist-indices{before=outer}",
    "everything": "tile-loops{loops=indices sizes=4},parallelize-loops{loops=batch,outer,indices_o},"
    "hoist-indices{before=indices_i},vectorize-inner{lanes=2},unroll{loop=resolve_indices_i factor=2},"
    "prefetch{what=rows loop=indices_i ahead=3 lines=2 locality=0},stream-stores",
    "parallel-tiles": "tile-loops{loops=indices,check_indices sizes=4,3},"
    "parallelize-loops{loops=batch,outer,indices_o,check_indices_o}",
}


def bounds_cases() -> list[Case]:
    """Every bounds mode with every index dtype, on an axis that the dtype can leave and on one that it cannot."""
    cases: list[Case] = []
    for bounds in Bounds:
        for dtype in INDEX_DTYPES:
            cases.append(
                gather_case(f"{bounds}-{dtype}", "3x5x4xf32", f"2x7x{dtype}", bounds, axis=1, schedule=PARALLEL)
            )
        for dtype, size in (("i8", 300), ("ui8", 256)):
            cases.append(gather_case(f"{bounds}-{dtype}-long-axis", f"{size}x2xf32", f"9x{dtype}", bounds))
        values = "unwrapped" if bounds is Bounds.UNCHECKED else "inside"
        for kind in ("default", "static"):
            case = {"constant": True, "erase_sizes": kind == "default", "values": values}
            cases.append(gather_case(f"{bounds}-constant-{kind}", "3x5x4xf32", "2x7xi8", bounds, axis=1, **case))
        cases.append(gather_case(f"{bounds}-constant-ui64", "3x5x4xf32", "2x7xui64", bounds, axis=1, constant=True))
    for name, indices in (("empty", "0xi64"), ("scalar", "i64"), ("one", "1x1xi64"), ("two", "2xi16")):
        case = {"axis": 1, "constant": True, "values": "unwrapped"}
        cases.append(gather_case(f"constant-{name}", "3x5x4xf32", indices, "zero", **case))
    same = gather_case("constant-same", "3x5x4xf32", "7xi64", "clip", axis=1, constant=True)
    cases.append(replace(same, indices=np.full_like(same.indices, 3)))
    cases.append(gather_case("zero-constant-outside", "3x5x4xf32", "2x7xi8", "zero", axis=1, constant=True))
    for dtype in INDEX_DTYPES:
        cases.append(gather_case(f"outside-{dtype}", "3x5x4xf32", f"2x7x{dtype}", "error", axis=1, values="outside"))
    return cases


def shape_cases(*, erase_sizes: bool) -> list[Case]:
    """Ranks, unit and zero sizes, element widths, layouts and schedules."""
    kind = "default" if erase_sizes else "static"
    cases: list[Case] = []

    def add(name: str, *arguments: str, **rest: Any) -> None:
        cases.append(gather_case(f"{name}-{kind}", *arguments, erase_sizes=erase_sizes, **rest))

    add("batch", "2x3x5x4xf32", "2x6xi64", "zero", axis=2, batch_dims=1)
    add("batch-all", "2x3x5xf32", "2x3xi64", "zero", axis=2, batch_dims=2)
    add("scalar-indices", "3x5x4xf32", "i64", "clip", axis=1)
    add("last-axis", "3x5xf32", "6xi32", "wrap", axis=1)
    add("units", "1x1x1xf32", "1x1xi64", "zero", axis=1)
    for name, data, indices, axis in (
        ("axis", "3x0x4xf32", "5xi64", 1),
        ("inner", "3x5x0xf32", "6xi64", 1),
        ("outer", "0x5x4xf32", "6xi64", 1),
        ("indices", "3x5x4xf32", "2x0xi64", 1),
    ):
        add(f"zero-{name}", data, indices, "zero", axis=axis)
    for element in ("i8", "f16", "complex<f64>", "S3", "S12", "V32"):
        add(f"element-{element}", f"3x5x2x{element}", "6xi64", "zero", axis=1)
    for name, layouts in LAYOUTS.items():
        add(f"layout-{name}", "2x3x5x4xf32", "2x6xi64", "error", axis=2, batch_dims=1, layouts=layouts)
        add(f"layout-outer-{name}", "2x3x5x4xi16", "6x2xi8", "zero", axis=2, layouts=layouts)
    for name, schedule in SCHEDULES.items():
        for values in ("inside", "outside"):
            case = {"axis": 2, "batch_dims": 1, "schedule": schedule, "values": values}
            add(f"{name}-{values}", "2x3x5x7xi32", "2x9xi64", "error", **case)
    lanes = "tile-loops{loops=indices sizes=8},hoist-indices{before=indices_i},vectorize-inner{lanes=4},"
    streams = {"axis": 1, "schedule": f"{lanes}prefetch{{what=rows loop=outer ahead=1}},stream-stores"}
    for element in ("i8", "i32", "complex<f64>"):
        for bounds in ("zero", "clip", "wrap", "unchecked"):
            add(f"lanes-{bounds}-{element}", f"3x9x{element}", "21xi64", bounds, **streams)
    add("rows-wide", "9x5xcomplex<f64>", "7xi64", "zero", schedule="vectorize-inner{lanes=2},stream-stores")
    add("rows-fixed", "9x6xi32", "7xi64", "zero", schedule="specialize-inner{bytes=24},vectorize-inner{lanes=2}")
    for bounds in Bounds:
        add(f"nd-{bounds}", "3x5x4xf32", "6x2xi32", bounds, operator=GatherNd())
        add(f"elements-{bounds}", "3x5x4xf32", "2x7x3xi32", bounds, operator=GatherElements(1))
    add("nd-outside", "2x3x5x4xf32", "2x6x2xi32", "error", operator=GatherNd(1), values="outside")
    add("elements-outside", "3x5x4xf32", "2x7x3xi32", "error", operator=GatherElements(1), values="outside")
    return cases


def gradient_case(name: str, grad: str, indices: str, table: str, bounds: str = "error", **rest: Any) -> Case:
    """Return the gradient of a gather from data such as `5x3xf32`."""
    operator, layout = rest.pop("operator", Gather()), rest.pop("layout", "plain")
    spec = ArraySpec.parse(table)
    normal = operator.normalized(spec.shape, ArraySpec.parse(indices).shape)
    size = min(spec.shape[axis] for axis in normal.axes(ArraySpec.parse(indices).shape))
    default = {"error": "inside", "unchecked": "unwrapped"}.get(bounds, "outside")
    index_values = indices_of(indices, rest.pop("values", default), size)
    numbers = aligned(ArraySpec.parse(grad).shape, spec.dtype)
    numbers[...] = np.random.default_rng(3).integers(0, 99, numbers.shape)
    gradient = Gradient(rest.pop("scale", 1.0))
    source, out = lay_out(numbers, layout), lay_out(aligned(spec.shape, spec.dtype), layout)
    return Case(
        name, operator, source, index_values, Bounds(bounds), out=out, gradient=gradient, table_shape=spec.shape, **rest
    )


def gradient_cases() -> list[Case]:
    """Every bounds mode, operator and kind of number, and every way in which threads share a gradient."""
    rows = ("9x4xf32", "9xi64", "5x4xf32")
    cases = [gradient_case(f"grad-{bounds}", *rows, bounds) for bounds in Bounds]
    cases += [gradient_case(f"grad-{kind}", f"9x4x{kind}", "9xi64", f"5x4x{kind}") for kind in ("ui8", "complex<f64>")]
    cases.append(gradient_case("grad-nd", "6x4xf64", "6x2xi32", "3x5x4xf64", "zero", operator=GatherNd()))
    cases.append(gradient_case("grad-elements", "2x7x3xf32", "2x7x3xi32", "3x5x4xf32", operator=GatherElements(1)))
    cases.append(gradient_case("grad-reversed", *rows, layout="reversed"))
    cases.append(gradient_case("grad-scaled", *rows, scale=0.1))
    cases.append(gradient_case("grad-outside", *rows, values="outside"))
    shared = {
        "owners": "owner-computes{owners=3},parallelize-loops{loops=owners,clear_axis}",
        "listed": "owner-computes{owners=3},fuse-into-owners,tile-loops{loops=indices sizes=4},"
        "parallelize-loops{loops=owners},compact-indices{loop=indices_i},"
        "prefetch{what=slices loop=indices_i ahead=2 locality=2}",
        "grouped": "group-indices{loop=indices},parallelize-loops{loops=axis},vectorize-inner{lanes=4},"
        "prefetch{what=slices loop=bag ahead=2 locality=2}",
        "sorted in parts": "group-indices{loop=indices},parallelize-sort{parts=3},parallelize-loops{loops=axis}",
        "pieces": "tile-loops{loops=inner sizes=3},interchange-loops{order=inner_o,indices,inner_i},"
        "parallelize-loops{loops=inner_o,clear_axis}",
    }
    cases += [gradient_case(f"grad-{name}", *rows, "zero", schedule=text) for name, text in shared.items()]
    listed = (
        "owner-computes{owners=2},fuse-into-owners,tile-loops{loops=indices sizes=16},"
        "parallelize-loops{loops=owners},compact-indices{loop=indices_i},vectorize-lists{lanes=8},"
        "unroll{loop=indices_i factor=2},prefetch{what=tile loop=indices_i ahead=2 locality=2}"
    )
    cases.append(gradient_case("grad-elements-listed", "29xf32", "29xi64", "9xf32", "zero", schedule=listed))
    return cases


def reduction_cases() -> list[Case]:
    """Every bounds mode, one with maxima, two with means, in memory and in registers, and bags that are prefetched."""
    specialized = "specialize-inner{bytes=28},vectorize-inner{lanes=4},prefetch{what=rows loop=bag ahead=2}"
    cases: list[Case] = []
    for schedule, bounds in (("", Bounds.ERROR), ("", Bounds.WRAP), *((specialized, mode) for mode in Bounds)):
        numbers = aligned((5, 7), np.dtype(np.float32))
        numbers[...] = np.random.default_rng(3).integers(0, 99, numbers.shape)
        default = {"error": "inside", "unchecked": "unwrapped"}.get(bounds, "outside")
        name = f"reduce-{bounds}{'-registers' if schedule else ''}"
        operators = {Bounds.CLIP: GatherMax(), Bounds.ZERO: GatherMean(), Bounds.WRAP: GatherMean()}
        operator = operators.get(bounds, GatherReduce())
        cases.append(Case(name, operator, numbers, indices_of("4x3xi64", default, 5), bounds, schedule))
    return cases


# Half of the shapes with sizes that the code knows, and the other half without.
SHAPES = [*shape_cases(erase_sizes=True)[::2], *shape_cases(erase_sizes=False)[1::2]]
CASES = {case.name: case for case in [*bounds_cases(), *SHAPES, *gradient_cases(), *reduction_cases()]}


def raises(case: Case) -> bool:
    """Return whether the gather is rejected for its indices."""
    return case.bounds is Bounds.ERROR and case.outside() > 0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that takes `case`, `good_case` or `bad_case` all gathers, those with a result, or those without."""
    for argument, wanted in (
        ("case", CASES.values()),
        ("good_case", [case for case in CASES.values() if not raises(case)]),
        ("bad_case", [case for case in CASES.values() if raises(case)]),
    ):
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, [pytest.param(case, id=case.name) for case in wanted])


# their stages


@dataclass
class Lowering:
    """What a gather's passes made of it; stages are (pass, text).

    Attributes:
        nests: every stage with our dialect, in generic form.
        loops: every stage from `lower-nest-to-loops` on, as printed.
        strict: those that changed something, without our attributes, as a function named `entry` and a number, to be
            lowered by upstream.
        kept: the last module of each kind.
    """

    entry: str
    nests: list[tuple[str, str]] = field(default_factory=list)
    loops: list[tuple[str, str]] = field(default_factory=list)
    strict: list[tuple[str, str]] = field(default_factory=list)
    kept: dict[str, ModuleOp] = field(default_factory=dict)

    def add(self, name: str, module: ModuleOp) -> None:
        """Keep the module after a pass."""
        if name != "lower-nest-to-loops" and not self.loops:
            self.nests.append((name, print_generic(module)))
            return
        text = str(module) + "\n"
        if not self.loops or text != self.loops[-1][1]:
            self.strict.append((name, str(strict_module(module, f"{self.entry}_{len(self.strict)}")) + "\n"))
        self.loops.append((name, text))


def lower(case: Case, entry: str) -> Lowering:
    """Run the default or static pipeline and keep every stage."""
    constant = case.indices if case.constant else None
    data, indices, out = (ArraySpec.of(array) for array in (case.data, case.indices, case.empty_out()))
    data, out = (out, data) if case.gradient else (data, out)
    given = {"bounds": case.bounds, "version": "test", "out": out, "gradient": case.gradient}
    module = operator_module(case.operator, data, indices, constant_indices=constant, **given)
    context, lowering = make_context(), Lowering(entry)
    lowering.add("operator", module)
    pipeline = default_pipeline(gn.Schedule(), erase_sizes=case.erase_sizes).split(",")
    if case.schedule:
        pipeline.insert(pipeline.index("hoist-invariants"), case.schedule)
    for step in parse_passes(",".join(pipeline)):
        if step.name == "lower-nest-to-loops":
            lowering.kept["nest"] = module.clone()
        step.apply(context, module)
        lowering.add(step.name, module)
    lowering.kept["loops"] = module
    return lowering


@pytest.fixture(scope="session")
def lowerings(upstream: Any) -> dict[str, Lowering]:
    """The stages of every case by its name; asks for `upstream` first, so that nothing is lowered without it."""
    return {name: lower(case, f"entry_{number}") for number, (name, case) in enumerate(CASES.items())}
