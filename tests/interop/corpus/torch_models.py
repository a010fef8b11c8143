"""Small torch models with gathers of every kind: encoders, decoders with caches, recommenders, graphs, beam search.

`CASES` is the table of models; `write.py` exports each by torch's two exporters and by OpenVINO. Needs torch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

Arrays = dict[str, np.ndarray]
DIM, HEADS, VOCABULARY, LENGTH, BAG = 32, 4, 300, 12, 8


@dataclass(frozen=True)
class Case:
    """A model, and inputs for it.

    Attributes:
        module: makes it, with this number of rows in its large tables.
        inputs: makes its inputs by name, for a batch and the rows of its tables.
        dynamic: the axes of each input that grow with the batch, with the names of their sizes.
    """

    module: Callable[[int], nn.Module]
    inputs: Callable[[np.random.Generator, int, int], Arrays]
    dynamic: Mapping[str, Mapping[int, str]]


CASES: dict[str, Case] = {}


def case(inputs: Callable[..., Arrays], dynamic: Mapping[str, Any] | None = None) -> Callable[[type], type]:
    """Add a module to the table; without `dynamic` the first axis of each input is the batch."""

    def add(kind: type) -> type:
        names = inputs(np.random.default_rng(0), 1, 8)
        name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind.__name__).lstrip("_")
        CASES[name] = Case(kind, inputs, dynamic or {key: {0: "batch"} for key in names})
        return kind

    return add


def tokens(rng: np.random.Generator, batch: int, rows: int) -> Arrays:
    """Return tokens (batch, length), some of which are 0, the padding."""
    return {"tokens": rng.integers(0, rows, (batch, LENGTH)) * (rng.random((batch, LENGTH)) < 0.8)}


def states(rng: np.random.Generator, batch: int, rows: int) -> Arrays:
    """Return hidden states (batch, length, dim)."""
    return {"states": rng.standard_normal((batch, LENGTH, DIM), np.float32)}


def flat_bags(rng: np.random.Generator, batch: int, rows: int) -> Arrays:
    """Return the indices of two tables, and where each bag begins; no bag is empty."""
    offsets = np.sort(rng.choice(batch * BAG, batch, replace=False))
    offsets[0] = 0
    return {
        "dense": rng.standard_normal((batch, 13), np.float32),
        "first": rng.integers(0, rows, batch * BAG),
        "second": rng.integers(0, rows, batch * BAG),
        "offsets": offsets,
    }


def even_bags(rng: np.random.Generator, batch: int, rows: int) -> Arrays:
    """Return indices (batch, bag) of two tables."""
    return {
        "dense": rng.standard_normal((batch, 13), np.float32),
        "first": rng.integers(0, rows, (batch, BAG)),
        "second": rng.integers(0, rows, (batch, BAG)),
    }


FLAT_AXES = {"dense": {0: "batch"}, "first": {0: "indices"}, "second": {0: "indices"}, "offsets": {0: "batch"}}


class Model(nn.Module):
    """A module whose `build` makes its parts, with this number of rows in its large tables."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.build(rows)

    def build(self, rows: int) -> None:
        pass


class Attention(nn.Module):
    """Self-attention of several heads, over a cache of keys and values where there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.joint, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def forward(self, x: Tensor, mask: Tensor | None = None, past: Any = None) -> tuple[Tensor, Tensor, Tensor]:
        parts = self.joint(x).reshape(x.shape[0], x.shape[1], 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = parts[0], parts[1], parts[2]
        if past is not None:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        scores = query @ key.transpose(-1, -2) * (DIM // HEADS) ** -0.5
        if mask is not None:
            scores = scores + mask
        rows = scores.softmax(-1) @ value
        return self.out(rows.transpose(1, 2).reshape(x.shape)), key, value


class Layer(nn.Module):
    """An encoder layer."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.one, self.two = Attention(), nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.up, self.down = nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.one(x + self.attention(x, mask)[0])
        return self.two(x + self.down(F.gelu(self.up(x))))


# ---- encoders and decoders ----


@case(lambda rng, batch, rows: tokens(rng, batch, rows) | {"segments": rng.integers(0, 2, (batch, LENGTH))})
class Bert(Model):
    def build(self, rows: int) -> None:
        self.token, self.position = nn.Embedding(rows, DIM, padding_idx=0), nn.Embedding(64, DIM)
        self.segment, self.norm, self.layer = nn.Embedding(2, DIM), nn.LayerNorm(DIM), Layer()
        self.pool = nn.Linear(DIM, DIM)

    def forward(self, tokens: Tensor, segments: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.norm(self.token(tokens) + self.position(places) + self.segment(segments))
        mask = (tokens == 0).float()[:, None, None, :] * -1e4
        x = self.layer(x, mask)
        return x, torch.tanh(self.pool(x[:, 0]))


@case(tokens)
class Roberta(Model):
    """Positions count the tokens that are no padding."""

    def build(self, rows: int) -> None:
        self.token, self.position = nn.Embedding(rows, DIM, padding_idx=0), nn.Embedding(64, DIM, padding_idx=0)
        self.layer = Layer()

    def forward(self, tokens: Tensor) -> Tensor:
        mask = (tokens != 0).long()
        places = torch.cumsum(mask, 1) * mask
        x = self.layer(self.token(tokens) + self.position(places))
        last = (mask.sum(1) - 1).clamp(min=0)
        return torch.gather(x, 1, last[:, None, None].expand(-1, 1, DIM)).squeeze(1)


def cached(rng: np.random.Generator, batch: int, rows: int) -> Arrays:
    shape = batch, HEADS, 5, DIM // HEADS
    return {
        "tokens": rng.integers(0, rows, (batch, 1)),
        "key": rng.standard_normal(shape, np.float32),
        "value": rng.standard_normal(shape, np.float32),
    }


@case(cached)
class GptCache(Model):
    """A step of a decoder with a cache of keys and values."""

    def build(self, rows: int) -> None:
        self.token, self.position = nn.Embedding(rows, DIM), nn.Embedding(64, DIM)
        self.attention, self.norm = Attention(), nn.LayerNorm(DIM)

    def forward(self, tokens: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        places = torch.arange(key.shape[2], key.shape[2] + tokens.shape[1], device=tokens.device)
        x = self.token(tokens) + self.position(places)
        found, key, value = self.attention(self.norm(x), None, (key, value))
        logits = (x + found) @ self.token.weight[:VOCABULARY].T
        return logits, key, value, logits[:, -1].argmax(-1)


@case(lambda rng, batch, rows: states(rng, batch, rows) | {"positions": rng.integers(0, 64, (batch, LENGTH))})
class Rope(Model):
    """Rotary embeddings, whose angles are looked up by position."""

    def build(self, rows: int) -> None:
        angles = torch.outer(torch.arange(64).float(), 10000 ** (-torch.arange(0, DIM, 2).float() / DIM))
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1))

    def forward(self, states: Tensor, positions: Tensor) -> Tensor:
        left, right = states.chunk(2, -1)
        return states * self.cos[positions] + torch.cat([-right, left], -1) * self.sin[positions]


@case(tokens)
class RelativeBias(Model):
    """Biases of attention by distance, as T5 has them."""

    def build(self, rows: int) -> None:
        self.token, self.bias, self.attention = nn.Embedding(rows, DIM), nn.Embedding(9, HEADS), Attention()

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        distances = torch.clamp(places[None, :] - places[:, None], -4, 4) + 4
        return self.attention(self.token(tokens), self.bias(distances).permute(2, 0, 1)[None])[0]


@case(tokens)
class TiedNorm(Model):
    """LayerNorm and MatMul with the table's own rows."""

    def build(self, rows: int) -> None:
        self.token, self.norm = nn.Embedding(rows, DIM), nn.LayerNorm(DIM)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.norm(self.token(tokens)) @ self.token.weight[:VOCABULARY].T


@case(lambda rng, batch, rows: states(rng, batch, rows) | {"lengths": rng.integers(1, LENGTH + 1, batch)})
class LastState(Model):
    """The last state of each sequence, by pairs of indices."""

    def build(self, rows: int) -> None:
        self.out = nn.Linear(DIM, 3)

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        return self.out(states[torch.arange(states.shape[0], device=states.device), lengths - 1])


# ---- recommenders ----


class Recommender(Model):
    mode = "sum"

    def build(self, rows: int) -> None:
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, DIM, mode=self.mode) for _ in range(2))
        self.bottom = nn.Sequential(nn.Linear(13, DIM), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(3 * DIM, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, dense: Tensor, first: Tensor, second: Tensor, offsets: Tensor) -> Tensor:
        bags = [table(indices, offsets) for table, indices in zip(self.tables, (first, second), strict=True)]
        return self.top(torch.cat([self.bottom(dense), *bags], 1))


@case(flat_bags, FLAT_AXES)
class DlrmSum(Recommender):
    pass


@case(flat_bags, FLAT_AXES)
class DlrmMean(Recommender):
    mode = "mean"


@case(flat_bags, FLAT_AXES)
class DlrmMax(Recommender):
    mode = "max"


class EvenRecommender(Recommender):
    def forward(self, dense: Tensor, first: Tensor, second: Tensor) -> Tensor:  # type: ignore[override]
        bags = [table(indices) for table, indices in zip(self.tables, (first, second), strict=True)]
        return self.top(torch.cat([self.bottom(dense), *bags], 1))


@case(even_bags)
class DlrmEvenSum(EvenRecommender):
    pass


def weighted(rng: np.random.Generator, batch: int, rows: int) -> Arrays:
    found = flat_bags(rng, batch, rows)
    found["offsets"][1:] -= found["offsets"][1:] % 4  # some bags are empty
    return {name: found[name] for name in ("first", "offsets")} | {"weights": rng.random(batch * BAG, np.float32)}


@case(weighted, {"first": {0: "indices"}, "offsets": {0: "batch"}, "weights": {0: "indices"}})
class WeightedBags(Model):
    def build(self, rows: int) -> None:
        self.table = nn.EmbeddingBag(rows, DIM, mode="sum")

    def forward(self, first: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
        return self.table(first, offsets, weights).tanh()


@case(
    lambda rng, batch, rows: {name: flat_bags(rng, batch, 9)[name] for name in ("first", "offsets")},
    {"first": {0: "indices"}, "offsets": {0: "batch"}},
)
class PaddedBags(Model):
    """Bags without the rows of a padding index; some are empty then."""

    def build(self, rows: int) -> None:
        self.table = nn.EmbeddingBag(rows, DIM, mode="sum", padding_idx=3)

    def forward(self, first: Tensor, offsets: Tensor) -> Tensor:
        return self.table(first, offsets).tanh()


@case(even_bags)
class RowsThenSum(Model):
    """Sums and means of rows that nothing else reads."""

    def build(self, rows: int) -> None:
        self.table = nn.Embedding(rows, DIM)

    def forward(self, dense: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.table(first).sum(1), self.table(second).mean(1), dense * 2


@case(lambda rng, batch, rows: {"ids": rng.integers(0, 2**40, (batch, 3))})
class HashEmbedding(Model):
    """Rows of two tables by hashes of the ids."""

    def build(self, rows: int) -> None:
        self.rows, self.one, self.two = rows, nn.Embedding(rows, DIM), nn.Embedding(rows, DIM)

    def forward(self, ids: Tensor) -> Tensor:
        return self.one(ids * 31 % self.rows) + self.two((ids * 131 + 7) % self.rows)


@case(
    lambda rng, batch, rows: {"history": rng.integers(0, rows, (batch, BAG)), "items": rng.integers(0, rows, 40)},
    {"history": {0: "batch"}},
)
class TwoTowers(Model):
    """The best of some items for the mean of what each user saw."""

    def build(self, rows: int) -> None:
        self.table, self.user, self.item = nn.Embedding(rows, DIM), nn.Linear(DIM, 16), nn.Linear(DIM, 16)

    def forward(self, history: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.user(self.table(history).mean(1)) @ self.item(self.table(items)).T
        best = scores.topk(5, -1)
        return best.values, items[best.indices]


@case(lambda rng, batch, rows: {"features": rng.integers(0, 5, (batch, 3))})
class Columns(Model):
    """A table for each column, and one table for all with an offset for each column."""

    def build(self, rows: int) -> None:
        self.each = nn.ModuleList(nn.Embedding(size, 4) for size in (5, 7, 11))
        self.joint = nn.Embedding(23, 4)
        self.register_buffer("offsets", torch.tensor([0, 5, 12]))

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        found = [table(features[:, column]) for column, table in enumerate(self.each)]
        return torch.cat(found, 1), self.joint(features + self.offsets)


# ---- tables of few bits ----


class Quantised(Model):
    def build(self, rows: int) -> None:
        self.register_buffer("table", torch.randint(0, 255, (rows, DIM)).to(torch.uint8))
        self.register_buffer("scale", torch.rand(rows))
        self.register_buffer("bias", torch.rand(rows))


@case(tokens)
class QuantisedRows(Quantised):
    """A scale and a bias for each row, applied to gathered rows."""

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table[tokens].float() * self.scale[tokens][..., None] + self.bias[tokens][..., None]


@case(tokens)
class QuantisedTable(Quantised):
    """One scale, applied to the whole table."""

    def forward(self, tokens: Tensor) -> Tensor:
        return F.embedding(tokens, (self.table.float() - 128) * 0.02)


@case(tokens)
class HalfTable(Model):
    """A table of float16 that is cast before it is read, and one that is cast after."""

    def build(self, rows: int) -> None:
        self.register_buffer("table", torch.randn(rows, DIM).half())

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return self.table.float()[tokens] * 2, F.embedding(tokens, self.table).float()


# ---- graphs and segments ----


def graph(rng: np.random.Generator, batch: int, rows: int) -> Arrays:
    nodes, edges = 8 * batch, 24 * batch
    return {
        "nodes": rng.standard_normal((nodes, DIM), np.float32),
        "sources": rng.integers(0, nodes, edges),
        "targets": rng.integers(0, nodes, edges),
    }


GRAPH_AXES = {"nodes": {0: "count"}, "sources": {0: "edges"}, "targets": {0: "edges"}}


@case(graph, GRAPH_AXES)
class GraphConvolution(Model):
    def build(self, rows: int) -> None:
        self.out = nn.Linear(DIM, DIM)

    def forward(self, nodes: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        messages = torch.index_select(nodes, 0, sources)
        return self.out(torch.zeros_like(nodes).index_add(0, targets, messages)).relu()


@case(graph, GRAPH_AXES)
class GraphAttention(Model):
    def build(self, rows: int) -> None:
        self.score = nn.Linear(2 * DIM, 1)

    def forward(self, nodes: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        left, right = nodes[sources], nodes[targets]
        scores = self.score(torch.cat([left, right], 1)).sigmoid()
        places = targets[:, None].expand(-1, DIM)
        return torch.scatter_add(torch.zeros_like(nodes), 0, places, left * scores)


# ---- search and routing ----


def beams(rng: np.random.Generator, batch: int, rows: int) -> Arrays:
    return {
        "logits": rng.standard_normal((batch, 4, 50), np.float32),
        "scores": rng.standard_normal((batch, 4), np.float32),
        "history": rng.integers(0, 50, (batch, 4, LENGTH)),
        "cache": rng.standard_normal((batch, 4, DIM), np.float32),
    }


@case(beams)
class BeamStep(Model):
    """A step of a beam search: the best continuations, and the histories and caches of their beams."""

    def forward(self, logits: Tensor, scores: Tensor, history: Tensor, cache: Tensor) -> tuple[Tensor, ...]:
        total = (scores[:, :, None] + logits.log_softmax(-1)).flatten(1)
        best = total.topk(4, -1)
        beam, token = best.indices // 50, best.indices % 50
        kept = torch.gather(history, 1, beam[:, :, None].expand(-1, -1, LENGTH))
        rows = torch.arange(cache.shape[0], device=cache.device)[:, None]
        return best.values, torch.cat([kept, token[:, :, None]], 2), cache[rows, beam]


@case(lambda rng, batch, rows: states(rng, batch, rows))
class Experts(Model):
    """The matrices of two of six experts for each state."""

    def build(self, rows: int) -> None:
        self.router, self.weights = nn.Linear(DIM, 6), nn.Parameter(torch.randn(6, DIM, DIM))

    def forward(self, states: Tensor) -> Tensor:
        shares, chosen = self.router(states[:, 0]).softmax(-1).topk(2, -1)
        found = torch.einsum("bd,bkde->bke", states[:, 0], self.weights[chosen])
        return (found * shares[:, :, None]).sum(1)


@case(lambda rng, batch, rows: states(rng, batch, rows))
class Sorted(Model):
    """States in the order of their scores, and the elements of each in order."""

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        order = states.sum(-1).argsort(-1)[:, :, None].expand(-1, -1, DIM)
        return torch.gather(states, 1, order), torch.gather(states, 2, states.argsort(-1))
