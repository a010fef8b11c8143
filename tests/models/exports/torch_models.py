"""Small torch models of gathers, as `write_exports.py` exports them; needs torch."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Case:
    """A model with inputs to trace it with.

    Attributes:
        module: makes it.
        inputs: makes its inputs by name, for a batch and a length.
        dynamic: which axes of each input are dynamic, and the names of their sizes.
    """

    module: Callable[[], nn.Module]
    inputs: Callable[[int, int], dict[str, Tensor]]
    dynamic: dict[str, dict[int, str]]


class Model(nn.Module):
    """A module whose `forward` is a function of its tables and its inputs."""

    def __init__(self, forward: Callable[..., Any], **tables: Tensor):
        super().__init__()
        self.function = forward
        for name, table in tables.items():
            self.register_buffer(name, table)

    def forward(self, *args: Tensor) -> Any:
        return self.function(self, *args)


class Embeddings(nn.Module):
    """Token, position and segment embeddings, as encoders begin."""

    def __init__(self, padding: int | None = None):
        super().__init__()
        self.token = nn.Embedding(20, 8, padding_idx=padding)
        self.position = nn.Embedding(16, 8)
        self.segment = nn.Embedding(2, 8)


class TokenPosition(Embeddings):
    def forward(self, tokens: Tensor) -> Tensor:
        return self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))


class Segments(Embeddings):
    def forward(self, tokens: Tensor, segments: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1]).unsqueeze(0).expand_as(tokens)
        return self.token(tokens) + self.position(places) + self.segment(segments)


class Roberta(Embeddings):
    """Positions that skip padding: the running count of tokens that are none."""

    def forward(self, tokens: Tensor) -> Tensor:
        mask = tokens.ne(1).int()
        places = torch.cumsum(mask, dim=1).type_as(mask) * mask + 1
        return self.token(tokens) + self.position(places.long())


class ClassToken(Embeddings):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.randn(1, 1, 8))

    def forward(self, tokens: Tensor) -> Tensor:
        rows = torch.cat([self.first.expand(tokens.shape[0], -1, -1), self.token(tokens)], 1)
        return rows + self.position.weight[: rows.shape[1]]


class Features(nn.Module):
    """A table for each column, and one table with offsets: how recommenders look up their features."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(size, 4) for size in (5, 7, 11)])
        self.joint = nn.Embedding(23, 4)
        self.register_buffer("offsets", torch.tensor([0, 5, 12]))

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        each = [table(features[:, column]) for column, table in enumerate(self.tables)]
        return torch.cat(each, 1), self.joint(features + self.offsets)


def tokens(most: int = 20, name: str = "tokens") -> Callable[[int, int], dict[str, Tensor]]:
    """Return what makes an input of token numbers."""
    return lambda batch, length: {name: torch.randint(0, most, (batch, length))}


def states(*others: Callable[[int, int], dict[str, Tensor]]) -> Callable[[int, int], dict[str, Tensor]]:
    """Return what makes an input of hidden states, and others after it."""

    def made(batch: int, length: int) -> dict[str, Tensor]:
        inputs = {"states": torch.randn(batch, length, 8)}
        for other in others:
            inputs |= other(batch, length)
        return inputs

    return made


def per_row(name: str, most: int) -> Callable[[int, int], dict[str, Tensor]]:
    """Return what makes an input with one index for each row."""
    return lambda batch, length: {name: torch.randint(0, most, (batch,))}


BATCH, LENGTH = {0: "batch"}, {0: "batch", 1: "length"}
TABLE = torch.manual_seed(0) and torch.randn(20, 8)
WINDOWS = torch.arange(3)[:, None] + torch.arange(2)


def on_tokens(forward: Callable[..., Any], **tables: Tensor) -> Case:
    """Return a model of one input of tokens."""
    return Case(lambda: Model(forward, table=TABLE, **tables), tokens(), {"tokens": LENGTH})


def on_states(forward: Callable[..., Any], *others: Any, **dynamic: dict[int, str]) -> Case:
    """Return a model of hidden states, and of what else it takes."""
    return Case(lambda: Model(forward), states(*others), {"states": LENGTH, **dynamic})


def _relative(m: Model, tokens: Tensor) -> Tensor:
    places = torch.arange(tokens.shape[1])
    distance = torch.clamp(places[None, :] - places[:, None], -3, 3) + 3
    return F.embedding(distance, m.table).permute(2, 0, 1).unsqueeze(0)


def _last_token(m: Model, states: Tensor, tokens: Tensor) -> Tensor:
    lengths = (tokens != 0).sum(-1) - 1
    return states[torch.arange(states.shape[0]), lengths.clamp(min=0)]


def _heads(m: Model, tokens: Tensor) -> Tensor:
    rows = F.embedding(tokens, m.table)
    return rows.view(rows.size(0), rows.size(1), 2, 4).permute(0, 2, 1, 3)


def _masked(m: Model, tokens: Tensor) -> Tensor:
    rows = F.embedding(tokens, m.table)
    return rows.masked_fill((tokens == 0).unsqueeze(-1), 0.0)


def _caches(batch: int, length: int) -> dict[str, Tensor]:
    return {
        "keys": torch.randn(batch, 2, length, 4),
        "values": torch.randn(batch, 2, length, 4),
        "beams": torch.randint(0, batch, (batch,)),
    }


CACHE = {0: "batch", 2: "length"}

CASES: dict[str, Case] = {
    "token": Case(lambda: nn.Sequential(nn.Embedding(20, 8)), tokens(), {"tokens": LENGTH}),
    "token_position": Case(TokenPosition, tokens(), {"tokens": LENGTH}),
    "segments": Case(
        Segments, lambda b, n: tokens()(b, n) | tokens(2, "segments")(b, n), {"tokens": LENGTH, "segments": LENGTH}
    ),
    "roberta": Case(Roberta, tokens(), {"tokens": LENGTH}),
    "class_token": Case(ClassToken, tokens(), {"tokens": LENGTH}),
    "features": Case(Features, lambda b, n: {"features": torch.randint(0, 5, (b, 3))}, {"features": BATCH}),
    "scaled": on_tokens(lambda m, t: F.embedding(t, m.table) * math.sqrt(8)),
    "padded": on_tokens(lambda m, t: F.embedding(t, m.table, padding_idx=0) * (t != 0).unsqueeze(-1)),
    "masked": on_tokens(_masked),
    "where": on_tokens(lambda m, t: torch.where((t > 5)[..., None], F.embedding(t, m.table), m.other[t]), other=-TABLE),
    "clamped": on_tokens(lambda m, t: F.embedding(torch.clamp(t - 3, 0, 9), m.table)),
    "hashed": on_tokens(lambda m, t: F.embedding((t * 31 + 7) % 20, m.table) + F.embedding(t // 3, m.table)),
    "relative": on_tokens(_relative),
    "heads": on_tokens(_heads),
    "channels_first": on_tokens(lambda m, t: F.pad(F.embedding(t, m.table).transpose(1, 2), (1, 2))),
    "split": on_tokens(lambda m, t: F.embedding(t, m.table).split([2, 4, 2], -1)),
    "shifted": on_tokens(lambda m, t: F.embedding(torch.cat([torch.zeros_like(t[:, :1]), t[:, :-1]], 1), m.table)),
    "last_token": on_states(_last_token, tokens(), tokens=LENGTH),
    "by_length": on_states(lambda m, x, n: x[torch.arange(x.shape[0]), n - 1], per_row("n", 5), n=BATCH),
    "beam_reorder": Case(
        lambda: Model(lambda m, k, v, b: (k.index_select(0, b), v.index_select(0, b))),
        _caches,
        {"keys": CACHE, "values": CACHE, "beams": BATCH},
    ),
    "cache_update": Case(
        lambda: Model(lambda m, k, v, b: torch.cat([k[b], v[b]], 2)),
        _caches,
        {"keys": CACHE, "values": CACHE, "beams": BATCH},
    ),
    "advanced": on_states(lambda m, x, i, j: x[i, j], per_row("i", 2), per_row("j", 5), i=BATCH, j=BATCH),
    "windows": on_states(lambda m, x: x[:, torch.arange(3)[:, None] + torch.arange(2)]),
    "take_along": on_states(
        lambda m, x, i: torch.take_along_dim(x, i.unsqueeze(-1), 1), tokens(5, "i"), i={0: "batch", 1: "length"}
    ),
    "gather": on_states(
        lambda m, x, i: torch.gather(x, 1, i.unsqueeze(-1).expand(-1, -1, 8)),
        tokens(5, "i"),
        i={0: "batch", 1: "length"},
    ),
    "slices": on_states(lambda m, x: (x[:, 1:-1, ::2], x[:, -1], torch.roll(x, 1, 2))),
}


def _rotary(m: Model, states: Tensor, places: Tensor) -> Tensor:
    first, second = states.chunk(2, -1)
    return states * m.cos[places] + torch.cat([-second, first], -1) * m.sin[places]


def _vocabulary(m: Model, tokens: Tensor) -> Tensor:
    """A part of a table that is divided among machines."""
    outside = (tokens < 5) | (tokens >= 15)
    rows = F.embedding(torch.where(outside, 0, tokens - 5), m.table[5:15])
    return torch.where(outside.unsqueeze(-1), 0.0, rows)


def _window_bias(m: Model, tokens: Tensor) -> Tensor:
    places = torch.arange(4)
    bias = m.other[(places[:, None] - places[None, :] + 3).view(-1)].view(4, 4, 8)
    return F.embedding(tokens, m.table).unsqueeze(1) + bias[:1, :1]


def _quantised(m: Model, tokens: Tensor) -> Tensor:
    return F.embedding(tokens, m.rows.float()) * m.scales[tokens].unsqueeze(-1)


# Models that no reader was written for: some have operators that are not supported.
CASES |= {
    "rotary": Case(
        lambda: Model(_rotary, cos=TABLE.cos(), sin=TABLE.sin()),
        states(tokens(5, "places")),
        {"states": LENGTH, "places": LENGTH},
    ),
    "vocabulary": on_tokens(_vocabulary),
    "window_bias": on_tokens(_window_bias, other=TABLE[:7]),
    "quantised": on_tokens(_quantised, rows=(TABLE * 50).to(torch.int8), scales=TABLE[:, 0]),
    "half": on_tokens(lambda m, t: F.embedding(t, m.table.half()).float()),
    "ngrams": on_tokens(lambda m, t: F.embedding((t[:, 1:] * 31 + t[:, :-1]) % 20, m.table)),
    "wrapped": on_tokens(lambda m, t: F.embedding((t - 7) % 20, m.table) + F.embedding((t - 7).abs(), m.table)),
    "gains": on_tokens(lambda m, t: F.embedding(t, m.table) * m.other, other=TABLE[0]),
    "tied": on_tokens(lambda m, t: (F.embedding(t, m.table), F.embedding(t, m.table) + 1)),
    "largest": on_tokens(lambda m, t: F.embedding(t, m.table).amax(1)),
    "mean": on_tokens(lambda m, t: F.embedding(t, m.table).mean(1)),
    "bag": on_tokens(lambda m, t: F.embedding_bag(t, m.table, mode="sum")),
    "causal": on_tokens(lambda m, t: F.embedding(t, m.table) * torch.ones(t.shape[1], t.shape[1]).tril()[0][:, None]),
    "flip": on_states(lambda m, x: x.flip(1)),
    "pages": on_states(lambda m, x, i: x[i].flatten(1, 2), tokens(2, "i"), i=LENGTH),
    "scores": on_states(lambda m, x, i: x.gather(2, i.unsqueeze(-1)).squeeze(-1), tokens(8, "i"), i=LENGTH),
    "batched": on_states(lambda m, x, i: x[torch.arange(x.shape[0])[:, None], i], tokens(5, "i"), i=LENGTH),
    "negative": on_states(lambda m, x: x[:, [-1, 0, -2]]),
    "channels": on_states(lambda m, x: x[..., torch.tensor([7, 1, 3])]),
    "select": on_states(lambda m, x, i: x.index_select(1, i[0]), tokens(5, "i"), i=LENGTH),
    "patches": on_states(lambda m, x: x.reshape(x.shape[0], x.shape[1], 2, 4).permute(0, 2, 1, 3).flatten(2)),
    "best": on_states(lambda m, x: F.embedding(x.argmax(-1), TABLE[:8])),
}


def _bags(mode: str, form: str, padding: int | None, *, weighted: bool) -> Case:
    """Return embedding bags of rows of indices, or of parts of a vector of them, with a last offset or without."""
    sizes = LENGTH if form == "rows" else BATCH
    others = {} if form == "rows" else {"offsets": {0: "bags"}}

    def forward(m: Model, indices: Tensor, *rest: Tensor) -> Tensor:
        weights, offsets = (rest[-1] if weighted else None), (None if form == "rows" else rest[0])
        last = form == "last"
        settings = {"mode": mode, "padding_idx": padding, "include_last_offset": last, "per_sample_weights": weights}
        return F.embedding_bag(indices, m.table, offsets, **settings)

    def inputs(batch: int, length: int) -> dict[str, Tensor]:
        shape = (batch, length) if form == "rows" else (batch * length,)
        made = {"tokens": torch.randint(0, 20, shape)}
        if others:
            starts = torch.randint(0, batch * length, (batch,)).sort()[0]
            starts[0] = 0
            made["offsets"] = torch.cat([starts, torch.tensor([batch * length][: form == "last"]).long()])
        return made | ({"weights": torch.randn(shape)} if weighted else {})

    dynamic = {"tokens": sizes, **others, **({"weights": sizes} if weighted else {})}
    return Case(lambda: Model(forward, table=TABLE), inputs, dynamic)


# Embedding bags; a padding index is exported by dynamo alone.
CASES |= {
    f"bag_{mode}_{form}{'_padded' if padding else ''}{'_weighted' if weighted else ''}": _bags(
        mode, form, padding, weighted=weighted
    )
    for mode in ("sum", "mean", "max")
    for form in ("offsets", "rows", "last")
    for padding in (None, 3)
    for weighted in ([False, True] if mode == "sum" else [False])
}
