"""What it costs to get a kernel: the pipeline alone, and a cold compile."""

import gathernest as gn
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.modules.operator_module import gather_module
from gathernest.lowering.numba.emitter import emit
from gathernest.lowering.pipeline import run_pipeline
from gathernest.lowering.registry import default_pipeline
from gathernest.lowering.schedule.schedule import Schedule

SCHEDULE = Schedule(tiles=(("indices", 256),), parallel=("indices_o",))


class Pipeline:
    """Operator to generated source, without Numba."""

    def setup(self) -> None:
        self.data, self.indices = ArraySpec.parse("1000x64xf32"), ArraySpec.parse("100xi64")

    def time_operator_to_source(self) -> None:
        module = gather_module(self.data, self.indices)
        run_pipeline(module, default_pipeline(SCHEDULE))
        emit(module)


class ColdCompile:
    """Operator to machine code, with no cache to read or write."""

    params = ["serial", "parallel"]
    param_names = ["schedule"]
    number = 1
    repeat = (2, 3, 20.0)
    warmup_time = 0

    def time_compile(self, schedule: str) -> None:
        with gn.knobs.scope(always_compile=True):
            chosen = Schedule() if schedule == "serial" else SCHEDULE
            gn.compile("gather", "1000x64xf32", "100xi64", schedule=chosen)
