"""What a call costs: three rows of a 5×4 table, by the function and by a compiled kernel."""

import functools

import gathernest as gn

from .beside_numpy import inputs_of, relative_time


@functools.cache
def kernel() -> gn.Kernel:
    inputs = inputs_of("call-kernel")
    return gn.compile("gather", inputs.data, inputs.indices[0])


class Call:
    def setup(self) -> None:
        inputs = inputs_of("call-kernel")
        self.data, self.indices, self.out = inputs.data, inputs.indices[0], inputs.out
        self.kernel = kernel()
        self.kernel(self.data, self.indices, self.out)
        gn.gather(self.data, self.indices)

    def time_function(self) -> None:
        gn.gather(self.data, self.indices)

    def time_kernel(self) -> None:
        self.kernel(self.data, self.indices, self.out)

    def track_function_over_numpy_take(self) -> float:
        return relative_time("call-function")

    def track_kernel_over_ndarray_take(self) -> float:
        return relative_time("call-kernel")

    for track in (track_function_over_numpy_take, track_kernel_over_ndarray_take):
        track.unit = "time of NumPy"  # pyright: ignore[reportFunctionMemberAccess]
