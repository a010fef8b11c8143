"""`gathernest.torch`: gathers of CPU tensors by torch's own names, with gradients, and registered with torch.

    import gathernest.torch as gnt

    gnt.index_select(table, 0, index)       # as torch.index_select, and so are the others

Installed as the package `gathernest.torch`, since a folder of that name beside the sources would hide torch from
scripts that run there.
"""

# pyright: reportMissingImports=false
try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    from gathernest.ir.errors import DependencyError

    raise DependencyError(
        "gathernest.torch needs PyTorch, which is not installed; run pip install 'gathernest[torch]'"
    ) from error

from gathernest.interop.torch_functions import *  # noqa: F403
from gathernest.interop.torch_functions import __all__ as __all__
