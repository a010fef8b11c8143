from .ir.array_spec import ArraySpec as ArraySpec
from .ir.errors import BoundsError as BoundsError
from .ir.errors import CompileError as CompileError
from .ir.errors import DependencyError as DependencyError
from .ir.errors import GathernestError as GathernestError
from .ir.errors import IndexTypeError as IndexTypeError
from .ir.errors import InternalError as InternalError
from .ir.errors import InvalidGatherError as InvalidGatherError
from .ir.errors import ModelError as ModelError
from .ir.errors import ScheduleError as ScheduleError
from .kernels.gather import gather as gather
from .kernels.gather import gather_elements as gather_elements
from .kernels.gather import gather_nd as gather_nd
from .kernels.gradient import gather_elements_grad as gather_elements_grad
from .kernels.gradient import gather_grad as gather_grad
from .kernels.gradient import gather_nd_grad as gather_nd_grad
from .kernels.host.knobs import knobs as knobs
from .kernels.kernel import Kernel as Kernel
from .kernels.kernel import compile as compile
from .kernels.model import Model as Model
from .kernels.model import load as load
from .kernels.operator_versions import ops as ops
from .kernels.tune import tune as tune
from .kernels.warm import warm as warm
from .lowering.schedule.schedule import Schedule as Schedule

__version__: str
