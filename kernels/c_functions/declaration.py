"""The C declaration of a problem's function, and the header of several. Plain Python.

    int64_t NAME(const T *data, const I *indices, T *out);

Sizes and layouts are the problem's, and no arguments; only `int64_t count` is an argument of a function that takes the
number of indices. `out` is always C-contiguous.
"""

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.errors import InternalError, InvalidGatherError, show
from ...ir.operator_spec import GatherElements, GatherNd, GatherWeighted
from ...ir.problem import Problem
from ...ir.semantics import NO_NEGATIVE_INDICES, Bounds

# A kernel for a size of 1 lacks a loop that other sizes have.
MIN_COUNT = 2
_C_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words of C23 and C++ that no function can have as its name.
_C_WORDS = (
    " alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do double "
    "else enum explicit export extern false float for friend goto if inline int long main mutable namespace new not "
    "nullptr operator or private protected public register restrict return short signed sizeof static static_assert "
    "struct switch template this throw true try typedef typename typeof union unsigned using virtual void volatile "
    "while xor "
)
_CONTRACT = """\
Each function returns the number of indices out of range, or -1 where it finds no memory: 0 when it has written out,
which is untouched otherwise.

Arrays have the sizes written above each function, and lie in rows (C order) where nothing else is written there.
Their addresses are multiples of the size of an element, out overlaps neither input, and nobody writes to the inputs
during a call. A call runs on the thread that makes it and keeps no state, so any number of threads may call at once. It
allocates nothing, but where it sorts indices (16 bytes for each, and 8 for each position), keeps their positions (1 to
4 bytes for each) or adds to a copy of out, until it returns."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The C function of a problem.

    Attributes:
        name: a C identifier.
        problem: the problem with a result in an array of the caller's.
        takes_count: whether the size of the first dimension of indices is an argument; the problem has a usual size.
    """

    name: str
    problem: Problem
    takes_count: bool = False

    @classmethod
    def of(cls, problem: Problem, name: str | None = None, *, takes_count: bool = False) -> "Declaration":
        """Return the declaration; a name that describes the problem is made where none is given.

        Raises:
            InvalidGatherError: the name is not legal for a C function, or the number of indices cannot be an argument.
        """
        result = problem.result
        problem = problem.into(ArraySpec(result.shape, result.dtype))
        if takes_count:
            check_takes_count(problem)
            problem = with_count(problem, max(problem.indices.shape[0], MIN_COUNT))
        default = _name_of(problem, takes_count=takes_count)
        if name is not None and not (isinstance(name, str) and _C_NAME.fullmatch(name)):
            raise InvalidGatherError(
                f"{show(name)} is no name for a C function; use letters, digits and _, such as {default}"
            )
        if name is not None and f" {name} " in _C_WORDS:
            raise InvalidGatherError(f"{name!r} is a word that C or C++ reserves; use another name, such as {default}")
        if name is not None and _is_taken(name):
            raise InvalidGatherError(
                f"{name!r} is a function of the C library, which programs that link this one would no longer find; use "
                f"another name, such as {default}"
            )
        return cls(name or default, problem, takes_count)

    @property
    def prototype(self) -> str:
        """The prototype, without the semicolon."""
        return f"int64_t {self.name}({self._parameters})"

    @property
    def function_type(self) -> str:
        """The C type of a pointer to it, `NAME_t`, without the semicolon."""
        return f"typedef int64_t (*{self.name}_t)({self._parameters})"

    @property
    def comment(self) -> str:
        """The description of the function, with the sizes of its arrays."""
        problem = self.problem
        arrays = [f"  {name}: {self._shown(number)}" for number, (name, _) in enumerate(self._arrays)]
        if self.takes_count:
            arrays.append(f"  count: 0 or more; compiled for about {problem.indices.shape[0]}")
        if isinstance(problem.operator, GatherWeighted):
            beside = "a weight" if problem.indices.shape[-1] == 2 else "a weight and a bias"
            kind = c_type(problem.result.dtype)
            arrays.append(f"  each place of indices: an index, and the bits of {beside}, as {kind}")
        return "\n".join([f"{problem.name}, {problem.options}", *arrays, self._range])

    def _shown(self, number: int) -> str:
        """Return the text of an array's spec, with the word `count` for the sizes that are the count."""
        spec = self._arrays[number][1]
        text, note = str(spec), _element_note(spec.dtype)
        if not self.takes_count:
            return text + note
        more = with_count(self.problem, self.problem.indices.shape[0] + 1)
        other = Declaration(self.name, more)._arrays[number][1]
        sizes = [str(size) if size == longer else "count" for size, longer in zip(spec.shape, other.shape, strict=True)]
        return "x".join([*sizes, text.rpartition("x")[2]]) + note

    @property
    def _arrays(self) -> tuple[tuple[str, ArraySpec], ...]:
        problem = self.problem
        names = ("data", "out") if problem.gradient is None else ("grad", "out")
        return (names[0], problem.source), ("indices", problem.indices), (names[1], problem.result)

    @property
    def _parameters(self) -> str:
        *read, (out, written) = self._arrays
        inputs = (f"const {c_type(spec.dtype)} *{name}" for name, spec in read)
        count = ["int64_t count"] if self.takes_count else []
        return ", ".join([*inputs, f"{c_type(written.dtype)} *{out}", *count])

    @property
    def _range(self) -> str:
        """The indices that are in range."""
        problem, allowed = self.problem, []
        if problem.bounds in (Bounds.CLIP, Bounds.WRAP):
            return "  Every index is in range."
        for axis, size in zip(problem.axes, problem.axis_sizes, strict=True):
            is_from_end = problem.bounds in (Bounds.ERROR, Bounds.ZERO) and problem.version not in NO_NEGATIVE_INDICES
            values = f"[{-size if is_from_end else 0}, {size - 1}]" if size else "none"
            allowed.append(f"{values} of axis {axis}")
        promised = " The caller promises that: nothing is checked." if problem.bounds is Bounds.UNCHECKED else ""
        zeros = " Others give zeros." if problem.bounds is Bounds.ZERO else ""
        return f"  In range: {', '.join(allowed)}.{promised}{zeros}"


def header(declarations: Sequence[Declaration], title: str, guard: str) -> str:
    """Return a header for C and C++.

    Args:
        declarations: functions of different names.
        title: the first line of the header.
        guard: the macro that makes a second inclusion empty.
    """
    text = f"/* {_commented(title)}\n *\n{_comment_lines(_CONTRACT)}\n */\n"
    text += f"#ifndef {guard}\n#define {guard}\n\n#include <stdbool.h>\n#include <stdint.h>\n\n"
    text += '#ifdef __cplusplus\nextern "C" {\n#endif\n'
    for each in declarations:
        text += f"\n/* {_comment_lines(each.comment).removeprefix(' * ')} */\n"
        text += f"{each.prototype};\n{each.function_type};\n"
    return f"{text}\n#ifdef __cplusplus\n}}\n#endif\n\n#endif\n"


def c_type(dtype: np.dtype) -> str:
    """Return the C type of an element; an integer of its size for a float that C lacks, `void` for other elements."""
    if dtype.kind == "b":
        return "bool"
    if dtype.kind in "iu":
        return f"{'u' if dtype.kind == 'u' else ''}int{8 * dtype.itemsize}_t"
    if dtype.kind == "f" and dtype.itemsize in (4, 8):
        return "float" if dtype.itemsize == 4 else "double"
    return f"uint{8 * dtype.itemsize}_t" if _is_float_of_bits(dtype) else "void"


def _is_float_of_bits(dtype: np.dtype) -> bool:
    """Return whether elements are floats of 8 or 16 bits, of NumPy or ml_dtypes."""
    return dtype.itemsize <= 2 and (dtype.kind == "f" or dtype.type.__module__.startswith("ml_dtypes"))


def _is_taken(name: str) -> bool:
    """Return whether the C library of this system, or Python, has a function of that name."""
    try:
        return hasattr(ctypes.CDLL(None), name)
    except TypeError:  # Windows has no library of that name
        return False


def _element_note(dtype: np.dtype) -> str:
    """Return a note on elements whose dtype the C type does not tell."""
    kind = c_type(dtype)
    if kind == "void":
        return f", elements of {dtype.itemsize} bytes"
    return ", as its bits" if _is_float_of_bits(dtype) else ""


def _name_of(problem: Problem, *, takes_count: bool) -> str:
    """Return a name that has every property on which a problem's function depends."""
    indices = str(problem.indices)
    words = [problem.name, str(problem.table), "by", re.sub(r"^\d+", "n", indices) if takes_count else indices]
    words += [f"{name}{value}" for name, value in problem.operator.attributes().items() if value]
    words += [problem.bounds.value] if problem.bounds is not Bounds.ERROR else []
    if problem.gradient is not None and problem.gradient.scale != 1:
        words.append(f"scale{problem.gradient.scale!r}".replace(".", "p"))
    return "gn_" + re.sub(r"[^A-Za-z0-9]+", "_", "_".join(words).replace("-", "m")).strip("_")


def _comment_lines(text: str) -> str:
    return "\n".join(f" * {_commented(line)}".rstrip() for line in text.splitlines())


def _commented(text: str) -> str:
    """Return a text that cannot end the comment around it, with `?` for the bytes of a name that is not UTF-8."""
    return text.replace("*/", "* /").encode(errors="replace").decode()


# functions that take the number of indices


def with_count(problem: Problem, count: int) -> Problem:
    """Return the problem of contiguous arrays with another size of the first dimension of indices."""
    return problem.resized(problem.table.shape, (count, *problem.indices.shape[1:]))


def counts_of(problem: Problem) -> tuple[int, int, int]:
    """Return the count of a problem and two more, from which `by_count` concludes."""
    count = problem.indices.shape[0]
    return count, count + 7, 2 * count + 5


def check_takes_count(problem: Problem) -> None:
    """Check that the size of the first dimension of indices may be any; raises InvalidGatherError."""
    operator, indices = problem.operator, problem.indices
    why = None
    if not indices.shape:
        why = "indices have no dimension"
    elif operator.attributes().get("batch_dims"):
        why = "it is a batch, which data has as well"
    elif isinstance(operator, GatherElements) and operator.axis:
        why = f"data has it as well, beside axis {operator.axis}"
    elif isinstance(operator, GatherNd) and indices.rank == 1:
        why = "it is the length of one tuple"
    elif not problem.table.is_contiguous or not indices.is_contiguous:
        why = "arrays must be C-contiguous for that"
    elif 0 in problem.axis_sizes:
        why = "the axis is empty, so no index is valid"
    if why is not None:
        raise InvalidGatherError(f"the first dimension of indices {indices} cannot be of any size: {why}")


def by_count(counts: Sequence[int], numbers: Sequence[Sequence[float]]) -> list[tuple[float, int]]:
    """Return base and slope of each of a kernel's arguments, which are numbers[k] for counts[k].

    Raises:
        InternalError: an argument is no linear function of the count.
    """
    found: list[tuple[float, int]] = []
    for first, second, third in zip(*numbers, strict=True):
        slope = 0 if isinstance(first, float) else int(second - first) // (counts[1] - counts[0])
        base = first - slope * counts[0] if slope else first
        if [base + slope * count for count in counts] != [first, second, third]:
            raise InternalError(f"an argument of a kernel is {first}, {second}, {third} for {counts} indices")
        found.append((base, slope))
    return found
