"""A kernel as a function pointer: the part of `Kernel` for callers that are not Python."""

import functools
import math
from typing import TYPE_CHECKING, Any

from ...ir.errors import GathernestError
from ...ir.problem import Problem
from ...lowering.registry import Pipeline
from ...lowering.schedule.schedule import Schedule
from ..host.knobs import knobs
from ..host.runtime import RUNTIME
from ..runtime.disk_cache import native_code
from ..runtime.plan import Plan
from ..runtime.prepare import prepare_problem
from .declaration import Declaration, header

if TYPE_CHECKING:
    from ...lowering.native.c_function import CFunction
    from ...lowering.native.kernel_code import NoKernel


class CallableFromC:
    """A kernel that C can call: `int64_t function(const T *data, const I *indices, T *out)`."""

    _problem: Problem
    _given: Schedule | Pipeline | None

    @property
    def address(self) -> int:
        """The address of a C function that gathers with the sizes and strides that it was compiled for.

        `int64_t function(const T *data, const I *indices, T *out)` returns the number of indices out of range, or -1
        where it finds no memory: 0 when `out` was written, and otherwise `out` is as it was. `out` is C-contiguous; for
        a gradient, the arguments are grad, indices, and the gradient of data. `c_header` has types and sizes. Only the
        indices are checked: arrays must have those sizes, dtypes and strides, addresses that are multiples of
        the size of an element, and `out` must overlap neither input.

        It runs on the calling thread alone, needs no GIL, and any number of threads may call it at once. It is compiled
        for one thread and for a given `out` when it is first asked for, so its schedule may be another than `schedule`.
        The address stays valid as long as the kernel or its `cfunc` lives.

        Raises:
            GathernestError: the knob `interpret` is set, and there is no machine code.
        """
        return self._c_function.address

    @property
    def cfunc(self) -> Any:
        """The same function as a `ctypes` function object: of three `ctypes.c_void_p`, returning `ctypes.c_int64`.

        `kernel.cfunc(data.ctypes, indices.ctypes, out.ctypes)` gathers, from Python and inside functions of
        `numba.njit` alike; Python may pass addresses too, such as `data.ctypes.data`. It keeps the machine code alive,
        and the GIL is released while it runs. Everything else is as `address` says.
        """
        return self._ctypes_function

    def c_header(self, name: str | None = None) -> str:
        """Return a C header with the prototype of `address`, and the type `NAME_t` of a pointer to it.

        Args:
            name: of the function; when omitted, it describes the problem, such as gn_gather_1000x64xf32_by_100xi64.

        Raises:
            InvalidGatherError: the name is not legal for a C function.
        """
        declaration = Declaration.of(self._problem, name)
        guard = f"GATHERNEST_{declaration.name.upper()}_H"
        return header([declaration], "The C function of a gathernest kernel.", guard)

    @functools.cached_property
    def _c_function(self) -> "CFunction":
        return RUNTIME.make(self._make_c_function)

    @functools.cached_property
    def _ctypes_function(self) -> Any:
        import ctypes

        made = self._c_function
        function: Any = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3)(made.address)
        function.machine_code = made  # keeps the code alive as long as the function
        return function

    def _make_c_function(self) -> "CFunction":
        """Make the function, or return it where another thread has made it meanwhile."""
        if (made := vars(self).get("_c_function")) is not None:
            return made
        from ...lowering.native.c_function import CFunction

        with knobs.scope(num_threads=1):
            prepared = prepare_problem(Declaration.of(self._problem).problem, self._given)
        if prepared.loaded is not None:
            made = CFunction(prepared.loaded.entry, prepared.numbers, native_code)
        elif prepared.plan.action == "run":
            raise GathernestError("GATHERNEST_INTERPRET=1 makes no machine code, so a kernel has no address; unset it")
        else:
            made = CFunction(without_kernel(prepared.plan), (), native_code)
        vars(self)["_c_function"] = made
        return made


def without_kernel(plan: Plan) -> "NoKernel":
    """Return the effect of a C function where the sizes of its problem leave a kernel nothing to do."""
    from ...lowering.native.kernel_code import NoKernel

    problem = plan.problem
    if plan.action == "zeros":
        return NoKernel(math.prod(problem.result.shape) * problem.result.dtype.itemsize, 0)
    return NoKernel(0, math.prod(problem.indices.shape) if plan.action == "reject" else 0)
