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

from gathernest.kernels.frameworks.torch_bags import EmbeddingBag as EmbeddingBag
from gathernest.kernels.frameworks.torch_bags import embedding_bag as embedding_bag
from gathernest.kernels.frameworks.torch_embedding import Embedding as Embedding
from gathernest.kernels.frameworks.torch_embedding import embedding as embedding
from gathernest.kernels.frameworks.torch_gathers import gather as gather
from gathernest.kernels.frameworks.torch_gathers import index_select as index_select
from gathernest.kernels.frameworks.torch_gathers import take_along_dim as take_along_dim
from gathernest.kernels.frameworks.torch_index_add import index_add as index_add

__all__ = [
    "Embedding",
    "EmbeddingBag",
    "embedding",
    "embedding_bag",
    "gather",
    "index_add",
    "index_select",
    "take_along_dim",
]
