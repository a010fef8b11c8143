"""Gradients against `numpy.add.at`: the cases of the suite of `gathernest bench`."""

from .beside_numpy import BY_NAME, ns_per_row, relative_time


class Gradient:
    params = [name for name, case in BY_NAME.items() if case.is_gradient]
    param_names = ["case"]

    def track_time_over_numpy(self, case: str) -> float:
        return relative_time(case)

    track_time_over_numpy.unit = "time of numpy.add.at"  # pyright: ignore[reportFunctionMemberAccess]

    def track_ns_per_row(self, case: str) -> float:
        return ns_per_row(case)

    track_ns_per_row.unit = "ns"  # pyright: ignore[reportFunctionMemberAccess]
