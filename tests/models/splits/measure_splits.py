"""Export three torch models that look up tables, and time each split and whole, in turn.

    python tests/models/splits/measure_splits.py write FOLDER
    python tests/models/splits/measure_splits.py measure FOLDER [ROUNDS]

`write` makes a recommender (DLRM), static embeddings with a mean, and a small transformer: 0.6 GB. `measure` prints a
row for each, its gain over ONNX Runtime alone with the same bytes and with `fast_sums`, and what `split` decides.

Needs torch (`write`), onnx and onnxruntime.
"""

import sys
from pathlib import Path

import numpy as np

# What inputs have: their sizes, and the number that integers are below.
INPUTS = {
    "dlrm": {"dense": ((1024, 13), None), "sparse": ((1024, 8, 32), 200_000)},
    "static": {"tokens": ((256, 64), 200_000)},
    "transformer": {"tokens": ((32, 32), 30_000)},
}


def write(folder: Path) -> None:
    """Export the models."""
    import torch
    from torch import Tensor, nn

    class Recommender(nn.Module):
        """Eight tables of 200k x 64 with bags of indices, a dense part, and the products of every two of them."""

        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList([nn.Embedding(200_000, 64) for _ in range(8)])
            self.bottom = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
            self.top = nn.Sequential(nn.Linear(64 + 36, 128), nn.ReLU(), nn.Linear(128, 1), nn.Sigmoid())
            row, column = torch.triu_indices(9, 9, 1)
            self.register_buffer("pairs", row * 9 + column)

        def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
            bottom = self.bottom(dense)
            bags = [table(sparse[:, place]).sum(1) for place, table in enumerate(self.tables)]
            parts = torch.stack([bottom, *bags], 1)
            products = torch.bmm(parts, parts.transpose(1, 2)).flatten(1)
            return self.top(torch.cat([bottom, products[:, self.pairs]], 1))

    class StaticEmbeddings(nn.Module):
        """A table of 200k x 256: a text is the mean of its tokens' rows, scaled to length 1."""

        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(200_000, 256)

        def forward(self, tokens: Tensor) -> Tensor:
            return nn.functional.normalize(self.table(tokens).mean(1), dim=1)

    class Transformer(nn.Module):
        """Token and position embeddings before two layers of 128."""

        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(30_000, 128), nn.Embedding(512, 128)
            layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.layers(self.token(tokens) + self.position.weight[: tokens.shape[1]])

    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in (("dlrm", Recommender), ("static", StaticEmbeddings), ("transformer", Transformer)):
        torch.manual_seed(0)
        arrays = tuple(torch.from_numpy(array) for array in made_inputs(name).values())
        axes = {key: {0: "batch"} for key in INPUTS[name]}
        torch.onnx.export(
            kind().eval(), arrays, f"{folder}/{name}.onnx", input_names=[*axes], output_names=["y"], dynamo=False,
            dynamic_axes=axes,
        )  # fmt: skip


def made_inputs(name: str) -> dict[str, np.ndarray]:
    """Return inputs at random."""
    random = np.random.default_rng(0)
    return {
        key: random.standard_normal(shape, np.float32) if below is None else random.integers(0, below, shape)
        for key, (shape, below) in INPUTS[name].items()
    }


def measure(folder: Path, rounds: int = 21) -> None:
    """Print a row for each model."""
    import onnxruntime

    import gathernest as gn
    from gathernest.kernels.host.cpu import cpu_model, usable_cores

    print(f"{cpu_model()}, {usable_cores()} cores, ONNX Runtime {onnxruntime.__version__}, {rounds} rounds in turn\n")
    print("| model | whole, ms | split, ms | gain | same bytes | gain with fast_sums | largest difference | decision |")
    print("|---|--:|--:|--:|---|--:|--:|---|")
    for name in INPUTS:
        path, inputs = folder / f"{name}.onnx", made_inputs(name)
        found = gn.split(path).compare(inputs, rounds)
        fast = gn.split(path, fast_sums=True).compare(inputs, rounds)
        decided = "split" if gn.split(path, inputs).lookups else "whole"
        print(
            f"| {name} | {found.whole_us / 1e3:.2f} | {found.split_us / 1e3:.2f} | {found.gain:.2f} | "
            f"{all(found.has_same_bytes.values())} | {fast.gain:.2f} | {max(fast.largest_difference.values()):.1g} | "
            f"{decided} |",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]))
    else:
        measure(Path(sys.argv[2]), *map(int, sys.argv[3:4]))
