"""The transformer, and what it is given of a table.

Two columns make one token. In the first blocks tokens attend within their row, then along their column. Each row is
then one vector, and rows attend to rows. Every row attends to context rows only. A last attention lets context rows
vote with their given labels, none for itself; heads correct the vote.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mgce.functional import worst_case_probs
from mgce_lab.table_model.prior import MAX_CLASSES

GROUP = 2
WAVES = (1, 2, 4)
PER_COLUMN = 4 + 2 * len(WAVES)
NAME_SIZE = 8
HEAD = 32
MOST_COLUMNS = 40  # as wide as tables of training were


@dataclass(frozen=True)
class Sizes:
    """Widths are multiples of 32, the width of a head; `beta` is that of the loss, inf for cross-entropy."""

    cell: int = 96
    cell_blocks: int = 3
    row: int = 160
    row_blocks: int = 4
    thinking: int = 16
    votes: int = 4
    beta: float = math.inf


def describe(x: Tensor, is_categorical: Tensor, context: int) -> Tensor:
    """Return PER_COLUMN numbers of each cell: value and rank among context rows, waves of the rank, and flags.

    Args:
        x: Tables x rows x columns, context rows first, NaN where missing.
        is_categorical: Tables x columns.
        context: Number of context rows.
    """
    missing = x.isnan()
    known = ~missing[:, :context]
    n = known.sum(1, keepdim=True).clamp(min=1)
    filled = x.masked_fill(missing, 0)
    mean = filled[:, :context].sum(1, keepdim=True) / n
    spread = ((filled[:, :context] - mean).square() * known).sum(1, keepdim=True).div(n).sqrt()
    value = torch.asinh((filled - mean) / spread.clamp(min=1e-6 * (1 + mean.abs())))
    ordered = x[:, :context].masked_fill(~known, torch.inf).mT.sort(-1).values.contiguous()
    at = filled.mT.contiguous()
    below = torch.searchsorted(ordered, at)
    up_to = torch.searchsorted(ordered, at, right=True)
    rank = (below + up_to).mT / n - 1
    rank = rank.clamp(-1, 1)
    waves = [wave(math.pi * k * rank) for k in WAVES for wave in (torch.sin, torch.cos)]
    cells = torch.stack([value, rank, *waves], -1).masked_fill(missing[..., None], 0)
    flags = torch.stack([missing, is_categorical[:, None].expand_as(missing)], -1)
    return torch.cat([cells, flags.to(cells.dtype)], -1)


def grouped(cells: Tensor) -> Tensor:
    """Return neighbouring columns as one group: tables x groups x rows x numbers; the last may be half empty."""
    tables, rows, columns, size = cells.shape
    if columns % GROUP:
        none = torch.zeros(tables, rows, 1, size, device=cells.device, dtype=cells.dtype)
        none[..., -2] = 1
        cells = torch.cat([cells, none], 2)
    return cells.view(tables, rows, -1, GROUP * size).transpose(1, 2)


def _matrices(count: int, *size: int, gain: float = 1.0) -> nn.Parameter:
    return nn.Parameter(torch.randn(count, *size) * gain / math.sqrt(size[-1]))


class Blocks(nn.Module):
    """The matrices of several blocks, stacked, so that an optimiser can treat them together."""

    def __init__(self, blocks: int, width: int, attentions: int) -> None:
        super().__init__()
        self.blocks, self.attentions = blocks, attentions
        n = blocks * attentions
        self.qkv = _matrices(n * 3, width, width)
        self.out = _matrices(n, width, width, gain=0.3)
        self.up = _matrices(blocks, 2 * width, width)
        self.down = _matrices(blocks, width, 2 * width, gain=0.3)
        self.sharper = nn.Parameter(torch.full((n, width // HEAD), 0.1))

    def weights(self, dtype: torch.dtype) -> list[dict[str, Any]]:
        """Return the matrices of each block in a type."""
        width = self.out.shape[-1]
        qkv = self.qkv.to(dtype).view(self.blocks, self.attentions, 3 * width, width)
        out = self.out.to(dtype).view(self.blocks, self.attentions, width, width)
        sharper = self.sharper.to(dtype).view(self.blocks, self.attentions, -1)
        parts = (qkv, out, self.up.to(dtype), self.down.to(dtype), sharper)
        names = ("qkv", "out", "up", "down", "sharper")
        return [dict(zip(names, block, strict=True)) for block in zip(*(part.unbind(0) for part in parts), strict=True)]


def _one_hot(labels: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    return (labels[..., None] == torch.arange(size, device=labels.device)).to(dtype)


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _heads(x: Tensor, qkv: Tensor) -> tuple[Tensor, ...]:
    """Return queries, keys and values as ... x heads x width of a head."""
    return F.linear(_norm(x), qkv).unflatten(-1, (3, -1, HEAD)).unbind(-3)


def _rows(x: Tensor, w: dict[str, Any], which: int, keys: int, scale: float) -> Tensor:
    """Let rows (the dimension before the last) attend to the first `keys` rows; x has three dimensions."""
    q, k, v = _heads(x, w["qkv"][which])
    q = q * (1 + w["sharper"][which] * scale)[:, None]
    k, v = k[:, :keys], v[:, :keys]
    mixed = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
    return x + F.linear(mixed.transpose(1, 2).flatten(2), w["out"][which])


def _columns(x: Tensor, w: dict[str, Any], which: int, by_matmul: bool) -> Tensor:
    """Let the tokens of a row attend to one another; x is tables x tokens x rows x width."""
    q, k, v = (part.permute(0, 2, 3, 1, 4) for part in _heads(x, w["qkv"][which]))
    if by_matmul:
        mixed = torch.softmax(q * HEAD**-0.5 @ k.transpose(-1, -2), -1) @ v
    else:
        flat = (part.reshape(-1, *part.shape[2:]) for part in (q, k, v))
        mixed = F.scaled_dot_product_attention(*flat).view(v.shape)
    return x + F.linear(mixed.permute(0, 3, 1, 2, 4).flatten(3), w["out"][which])


def _thought(x: Tensor, w: dict[str, Any]) -> Tensor:
    return x + F.linear(F.gelu(F.linear(_norm(x), w["up"])), w["down"])


class TableModel(nn.Module):
    """Logits of right classes for context rows and for new rows."""

    def __init__(self, sizes: Sizes | None = None) -> None:
        super().__init__()
        self.sizes = s = sizes or Sizes()
        self.column_by_matmul = False  # on one core SDPA is faster
        self.cell_in = _matrices(1, s.cell, GROUP * PER_COLUMN)
        self.name_in = _matrices(1, s.cell, NAME_SIZE, gain=0.3)
        self.label = nn.Parameter(torch.randn(MAX_CLASSES + 1, s.cell))  # the last: no label
        self.thinking = nn.Parameter(torch.randn(2, s.thinking, s.cell))  # of columns, of labels
        self.cells = Blocks(s.cell_blocks, s.cell, 2)
        self.row_in = _matrices(1, s.row, 2 * s.cell)
        self.rows = Blocks(s.row_blocks, s.row, 1)
        self.vote_in = _matrices(2, s.votes * HEAD, s.row)  # queries, keys
        self.vote_weight = nn.Parameter(torch.full((s.votes,), 1 / s.votes))
        self.head = _matrices(2, s.row, s.row)  # context rows, new rows
        self.classes = nn.Parameter(torch.zeros(2, MAX_CLASSES, s.row))
        self.own = nn.Parameter(torch.tensor(1.0))  # what its given label adds to a context row

    def forward(self, cells: Tensor, given: Tensor, n_classes: Tensor, names: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits of context rows and of new rows, minus infinity beyond each table's classes.

        Args:
            cells: Tables x groups x rows x numbers, from `grouped(describe(...))`; its type is that of the work.
            given: Tables x context rows: labels, partly wrong.
            n_classes: Classes of each table.
            names: Tables x groups x NAME_SIZE: random numbers by which like columns can be told apart.
        """
        s, context, dtype = self.sizes, given.shape[1], cells.dtype
        keys = s.thinking + context
        scale = math.log(context / 256)
        x = self._tokens(cells, given, names)
        tables, tokens = x.shape[:2]
        for w in self.cells.weights(dtype):
            x = _columns(x, w, 0, self.column_by_matmul)
            x = _rows(x.flatten(0, 1), w, 1, keys, scale).unflatten(0, (tables, tokens))
            x = _thought(x, w)
        row = torch.cat([_norm(x[:, -1]), _norm(x[:, :-1].mean(1))], -1)
        row = F.linear(row, self.row_in[0].to(dtype))
        for w in self.rows.weights(dtype):
            row = _thought(_rows(row, w, 0, keys, scale), w)
        return self._logits(_norm(row[:, s.thinking :]), given, n_classes)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return what the loss takes logits for: softmax, or MGCE's p."""
        if self.sizes.beta == math.inf:
            return logits.softmax(-1)
        return worst_case_probs(logits, beta=self.sizes.beta, dim=-1)

    def _tokens(self, cells: Tensor, given: Tensor, names: Tensor) -> Tensor:
        dtype = cells.dtype
        tables, groups, rows, _ = cells.shape
        columns = F.linear(cells, self.cell_in[0].to(dtype)) + F.linear(names, self.name_in[0].to(dtype))[:, :, None]
        label = torch.cat([given, given.new_full((tables, rows - given.shape[1]), MAX_CLASSES)], 1)
        labels = (_one_hot(label, MAX_CLASSES + 1, dtype) @ self.label.to(dtype))[:, None]
        thinking = self.thinking.to(dtype)
        first = torch.cat([thinking[:1].expand(groups, -1, -1), thinking[1:]])[None].expand(tables, -1, -1, -1)
        return torch.cat([first, torch.cat([columns, labels], 1)], 2)

    def _logits(self, row: Tensor, given: Tensor, n_classes: Tensor) -> tuple[Tensor, Tensor]:
        context, dtype = given.shape[1], row.dtype
        vote_in = self.vote_in.to(dtype)
        q = F.linear(row, vote_in[0]).unflatten(-1, (-1, HEAD)).transpose(1, 2)
        k = F.linear(row[:, :context], vote_in[1]).unflatten(-1, (-1, HEAD)).transpose(1, 2)
        score = q * HEAD**-0.5 @ k.transpose(-1, -2)
        itself = torch.eye(row.shape[1], context, dtype=torch.bool, device=row.device)
        votes = score.masked_fill(itself, -torch.inf).softmax(-1) @ _one_hot(given, MAX_CLASSES, dtype)[:, None]
        voted = (votes.float().clamp(min=1e-3).log() * self.vote_weight[:, None, None]).sum(1)
        heads, classes = self.head.to(dtype), self.classes.to(dtype)
        parts = (row[:, :context], row[:, context:])
        both = [F.linear(F.gelu(F.linear(part, heads[i])), classes[i]).float() for i, part in enumerate(parts)]
        both[0] = both[0] + self.own * _one_hot(given, MAX_CLASSES, torch.float32)
        logits = torch.cat(both, 1) + voted
        no_class = torch.arange(MAX_CLASSES, device=row.device) >= n_classes[:, None]
        logits = logits.masked_fill(no_class[:, None], -torch.inf)
        return logits[:, :context], logits[:, context:]


def _varying(x: Tensor, is_categorical: Tensor, context: int) -> tuple[Tensor, Tensor]:
    """Return the columns that have two values in the context, or all where none has."""
    filled = x[:context].nan_to_num(0)
    known = ~x[:context].isnan()
    least = x[:context].masked_fill(~known, torch.inf).amin(0)
    varies = ((filled > least) & known).any(0)
    varies = varies if varies.any() else torch.ones_like(varies)
    return x[:, varies], is_categorical[varies]


@torch.no_grad()
def predict(
    model: TableModel, x: Tensor, is_categorical: Tensor, given: Tensor, bags: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return probabilities of right classes of context rows and of new rows, means over orders of columns and classes.

    Args:
        model: The trained model.
        x: Rows x columns, context rows first, NaN where missing, categories as numbers.
        is_categorical: A flag for each column.
        given: Classes of the context rows from 0, partly wrong. Their number is the largest of them plus one.
        bags: Number of orders. A column with one value in the context is left out.
        generator: Draws the orders; a bag of a wide table has MOST_COLUMNS of its columns.
    """
    n_classes, context = int(given.max()) + 1, len(given)
    x, is_categorical = _varying(x, is_categorical, context)
    total = torch.zeros(len(x), n_classes)
    for _ in range(bags):
        columns = torch.randperm(x.shape[1], generator=generator)[:MOST_COLUMNS]
        classes = torch.randperm(n_classes, generator=generator)
        cells = grouped(describe(x[None, :, columns].float(), is_categorical[None, columns], context))
        names = torch.randn(1, cells.shape[1], NAME_SIZE, generator=generator)
        logits = torch.cat(model(cells, classes[given][None], torch.tensor([n_classes]), names), 1)[0]
        total += model.probabilities(logits[:, classes])
    total /= bags
    return total[:context], total[context:]
