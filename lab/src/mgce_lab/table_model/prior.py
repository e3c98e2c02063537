"""Simulated tables with right labels and with given labels that are partly wrong, many at a time, on any device.

A table comes from a world: latent causes run through a random network whose nodes are seen as columns. Its classes
come from nodes, from ranges of one node, from clusters of causes, or from trees over the columns. The right label is
what the world drew, so a row between two classes is hard without being wrong. Wrong labels come last.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

MAX_CLASSES = 10
ROOTS, WIDTH, LAYERS = 12, 24, 3
CLUSTERS, TREES, DEPTH = 20, 6, 4
TARGETS = ("nodes", "ordinal", "trees", "clusters")
TARGET_SHARES = (0.25, 0.05, 0.3, 0.4)
NOISES = ("none", "symmetric", "pair", "by class", "boundary", "region", "annotators")
NOISE_SHARES = (0.25, 0.2, 0.12, 0.12, 0.13, 0.09, 0.09)
# Above these rates the right label is no longer the likelier one: of a pair, or of labels that are drawn evenly.
MOST_SYMMETRIC, MOST_PAIR = 0.6, 0.45


class Shape(NamedTuple):
    """Rows in the context, new rows, and columns at most."""

    context: int
    new: int
    columns: int


class Tables(NamedTuple):
    """Simulated tables: `x` has NaN where a value is missing; a column that is missing throughout is no column."""

    x: Tensor  # tables x rows x columns, context rows first
    is_categorical: Tensor  # tables x columns
    given: Tensor  # tables x context rows
    right: Tensor  # tables x rows
    n_classes: Tensor  # tables
    noise: Tensor  # tables: index into NOISES


class Draw:
    """Random numbers of one generator on one device."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator, self.device = generator, generator.device

    def uniform(self, *size: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Return numbers that are uniform between two limits."""
        return torch.rand(size, generator=self.generator, device=self.device) * (high - low) + low

    def log_uniform(self, *size: int, low: float, high: float) -> Tensor:
        """Return numbers whose logarithm is uniform."""
        return torch.exp(self.uniform(*size, low=math.log(low), high=math.log(high)))

    def normal(self, *size: int) -> Tensor:
        """Return standard normal numbers."""
        return torch.randn(size, generator=self.generator, device=self.device)

    def gumbel(self, *size: int) -> Tensor:
        """Return standard Gumbel numbers: the argmax of scores plus these is a draw from their softmax."""
        return -torch.log(-torch.log(self.uniform(*size).clamp(1e-6, 1 - 1e-6)))

    def chance(self, p: float | Tensor, *size: int) -> Tensor:
        """Return True with probability p."""
        return self.uniform(*size) < p

    def below(self, high: Tensor | int, *size: int) -> Tensor:
        """Return integers from 0 to high - 1."""
        numbers = (self.uniform(*size) * high).long()
        return numbers.clamp(max=high - 1) if isinstance(high, int) else torch.minimum(numbers, high - 1)

    def kind(self, shares: tuple[float, ...], *size: int) -> Tensor:
        """Return indices drawn by their shares."""
        total, kind = 0.0, torch.zeros(size, dtype=torch.long, device=self.device)
        at = self.uniform(*size)
        for share in shares[:-1]:
            total += share
            kind += at >= total
        return kind

    def order(self, *size: int) -> Tensor:
        """Return a random order of the last dimension."""
        return self.uniform(*size).argsort(-1)


def draw_tables(tables: int, shape: Shape, generator: torch.Generator) -> Tables:
    """Return simulated tables of one shape, from a generator, on its device."""
    draw = Draw(generator)
    rows = shape.context + shape.new
    n_classes = _n_classes(draw, tables)
    target = draw.kind(TARGET_SHARES, tables)
    roots, cluster, densities = _roots(draw, rows, n_classes, target == TARGETS.index("clusters"))
    pool, is_node = _network(draw, roots)
    seen, is_column = _columns(draw, pool, is_node, shape.columns)
    choices = torch.stack(
        [
            _node_scores(draw, pool, is_node, seen, is_column),
            _range_scores(draw, pool, is_node, seen, is_column, n_classes),
            _tree_scores(draw, seen, is_column),
        ]
    )
    scores, right = _right(draw, target, n_classes, choices, cluster, densities)
    right, scores = _classes_shuffled(draw, n_classes, right, scores)
    context = slice(0, shape.context)
    known = (seen * is_column[:, None])[:, context]
    given, noise = _given(draw, right[:, context], scores[:, context], known, n_classes)
    x, is_categorical = _observed(draw, seen)
    x = _with_missing(draw, x).masked_fill(~is_column[:, None], torch.nan)
    return Tables(x, is_categorical & is_column, given, right, n_classes, noise)


def _n_classes(draw: Draw, tables: int) -> Tensor:
    """Two classes in nearly half the tables, else any number, few more often than many."""
    several = 2 + (draw.uniform(tables).pow(1.5) * (MAX_CLASSES - 1)).long()
    return torch.where(draw.chance(0.3, tables), 2, several)


def _standard(x: Tensor) -> Tensor:
    """Centre and scale each column over the rows of its table."""
    x = x - x.mean(1, keepdim=True)
    return x / x.square().mean(1, keepdim=True).sqrt().clamp(min=1e-4)


def _roots(draw: Draw, rows: int, n_classes: Tensor, of_clusters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the causes of each row, its cluster, and each cluster's log-density at the row."""
    tables = len(n_classes)
    used = torch.arange(ROOTS, device=draw.device) < 1 + draw.below(ROOTS, tables)[:, None]
    n_clusters = torch.maximum(n_classes, 2 + (draw.uniform(tables) * (CLUSTERS - 1)).long())
    is_cluster = torch.arange(CLUSTERS, device=draw.device) < n_clusters[:, None]
    weight = (draw.normal(tables, CLUSTERS) * draw.uniform(tables, 1)).masked_fill(~is_cluster, -torch.inf)
    weight = weight.log_softmax(-1)
    cluster = (weight[:, None] + draw.gumbel(tables, rows, CLUSTERS)).argmax(-1)
    centre = draw.normal(tables, CLUSTERS, ROOTS) * draw.log_uniform(tables, 1, 1, low=1.5, high=8.0)
    width = torch.exp(0.5 * draw.normal(tables, 1, ROOTS))
    tail = 0.5 * draw.chance(0.2, tables, 1, 1)  # heavy: normal numbers over roots of uniform ones
    step = draw.normal(tables, rows, ROOTS) / draw.uniform(tables, rows, 1, low=0.05).pow(tail)
    centre = centre * used[:, None]
    clustered = _taken(centre, cluster) + width * step
    whitened, at = clustered / width, centre / width
    distance = whitened.square().sum(-1, keepdim=True) + at.square().sum(-1)[:, None] - 2 * whitened @ at.mT
    densities = weight[:, None] - 0.5 * distance.clamp(min=0)
    flat = torch.where(draw.chance(0.5, tables, 1, 1), draw.uniform(tables, rows, ROOTS, low=-1.7, high=1.7), step)
    is_clustered = of_clusters | draw.chance(0.3, tables)
    roots = torch.where(is_clustered[:, None, None], clustered, flat)
    return _standard(roots) * used[:, None], cluster, densities


def _taken(values: Tensor, index: Tensor) -> Tensor:
    """Return rows of `values` (tables x n x d) by an index (tables x rows)."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def _activated(draw: Draw, x: Tensor) -> Tensor:
    """Apply an activation to each node: one for all nodes of the table, or one of the node's own."""
    tables, _, nodes = x.shape
    own = draw.chance(0.4, tables, 1)
    kind = torch.where(own, draw.below(8, tables, nodes), draw.below(8, tables, 1))[:, None]
    shapes = (
        lambda v: v,
        torch.tanh,
        torch.relu,
        lambda v: torch.sin(2 * v),
        torch.abs,
        lambda v: torch.exp(-v.square()),
        lambda v: torch.tanh(8 * v),
        lambda v: v * v.abs(),
    )
    result = x
    for i, shape in enumerate(shapes):
        result = torch.where(kind == i, shape(x), result)
    return result


def _network(draw: Draw, roots: Tensor) -> tuple[Tensor, Tensor]:
    """Run causes through a random network; return all nodes, and which of them the table has."""
    tables, rows, _ = roots.shape
    depth = draw.below(LAYERS + 1, tables)
    noise = 0.3 * draw.uniform(tables, 1, 1).square() * draw.chance(0.6, tables, 1, 1)
    layers, exists = [roots], [roots.abs().amax(1) > 0]
    h = roots
    for layer in range(LAYERS):
        dense = draw.log_uniform(tables, 1, 1, low=0.08, high=1.0)
        weights = draw.normal(tables, h.shape[-1], WIDTH) * draw.chance(dense, tables, h.shape[-1], WIDTH)
        h = _standard(h @ weights) * draw.log_uniform(tables, 1, WIDTH, low=0.5, high=2.0)
        h = _standard(_activated(draw, h + draw.normal(tables, 1, WIDTH)))
        h = h + noise * draw.normal(tables, rows, WIDTH)
        layers.append(h)
        exists.append((depth[:, None] > layer) & (h.abs().amax(1) > 1e-3))
    return torch.cat(layers, -1), torch.cat(exists, -1)


def _mixed(draw: Draw, pool: Tensor, is_node: Tensor, columns: int, dense: Tensor) -> Tensor:
    """Return columns that are one node each, or sums of few or all nodes, as `dense` (0, 1, 2) says."""
    tables, _, nodes = pool.shape
    keys = draw.uniform(tables, nodes, columns).masked_fill(~is_node[..., None], -1)
    best = keys.amax(1, keepdim=True)
    near = torch.where(dense[:, None, None] == 1, 0.85 * best, best)
    picked = (keys >= near) | ((dense[:, None, None] == 2) & is_node[..., None])
    weights = torch.where(dense[:, None, None] == 0, 1.0, draw.normal(tables, nodes, columns))
    return _standard(pool @ (weights * picked))


def _columns(draw: Draw, pool: Tensor, is_node: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """Return what could be seen of the nodes, and which columns the table has; some columns say nothing."""
    tables, rows, _ = pool.shape
    seen = _mixed(draw, pool, is_node, columns, draw.kind((0.5, 0.25, 0.25), tables))
    noise = 0.7 * draw.uniform(tables, 1, columns).square() * draw.uniform(tables, 1, 1)
    seen = _standard(seen + noise * draw.normal(tables, rows, columns))
    # A column with its rows in another order has the same values and says nothing.
    idle = draw.chance(0.5 * draw.uniform(tables, 1).square(), tables, columns)
    seen = torch.where(idle[:, None], seen.gather(1, draw.order(tables, columns, rows).mT), seen)
    fewest = max(2, columns // 3)
    n_columns = fewest + draw.below(columns - fewest + 1, tables)
    return seen, torch.arange(columns, device=draw.device) < n_columns[:, None]


def _some(draw: Draw, is_column: Tensor, share: float | Tensor) -> Tensor:
    """Take columns by chance, and the first one always."""
    first = torch.arange(is_column.shape[-1], device=draw.device) == 0
    return (is_column & draw.chance(share, *is_column.shape)) | first


def _node_scores(draw: Draw, pool: Tensor, is_node: Tensor, seen: Tensor, is_column: Tensor) -> Tensor:
    """Scores from sums of nodes or of columns, through one more layer in half the tables."""
    tables = len(pool)
    hidden = _mixed(draw, pool, is_node, 2 * MAX_CLASSES, draw.below(3, tables))
    is_seen = _some(draw, is_column, draw.uniform(tables, 1).clamp(min=0.1))
    of_columns = _mixed(draw, seen, is_seen, 2 * MAX_CLASSES, draw.below(3, tables))
    hidden = torch.where(draw.chance(0.8, tables, 1, 1), of_columns, hidden)
    curved = _activated(draw, hidden)
    hidden = torch.where(draw.chance(0.5, tables, 1, 1), curved, hidden)
    used = draw.chance(draw.log_uniform(tables, 1, 1, low=0.04, high=0.6), tables, 2 * MAX_CLASSES, 1)
    used = used | (torch.arange(2 * MAX_CLASSES, device=draw.device)[:, None] == 0)
    return _standard(hidden @ (used * draw.normal(tables, 2 * MAX_CLASSES, MAX_CLASSES)))


def _range_scores(
    draw: Draw, pool: Tensor, is_node: Tensor, seen: Tensor, is_column: Tensor, n_classes: Tensor
) -> Tensor:
    """Scores of classes that are ranges of one number, one range each or two."""
    tables, rows, _ = pool.shape
    hidden = _mixed(draw, pool, is_node, 1, draw.below(3, tables))[..., 0]
    is_seen = _some(draw, is_column, 0.3)
    of_columns = _mixed(draw, seen, is_seen, 1, draw.below(3, tables))[..., 0]
    number = torch.where(draw.chance(0.7, tables, 1), of_columns, hidden)
    place = (number.argsort(1).argsort(1) + 0.5) / rows
    n_ranges = n_classes * (1 + draw.chance(0.3, tables).long())
    ranges = torch.arange(2 * MAX_CLASSES, device=draw.device).expand(tables, -1)
    centre = (ranges + 0.5 + draw.uniform(tables, 2 * MAX_CLASSES, low=-0.3, high=0.3)) / n_ranges[:, None]
    score = -((place[..., None] - centre[:, None]) * n_ranges[:, None, None]).abs()
    score = score.masked_fill((ranges >= n_ranges[:, None])[:, None], -30).clamp(min=-30)
    of_class = (ranges % n_classes[:, None])[:, None].expand(-1, rows, -1)
    return torch.full((tables, rows, MAX_CLASSES), -30.0, device=draw.device).scatter_reduce(2, of_class, score, "amax")


def _tree_scores(draw: Draw, seen: Tensor, is_column: Tensor) -> Tensor:
    """Scores of few trees that ask one question a level; a table's trees prefer some columns."""
    tables, rows, columns = seen.shape
    taste = draw.normal(tables, 1, columns) * 4 * draw.uniform(tables, 1, 1)
    questions = TREES * DEPTH
    taste = taste.masked_fill(~is_column[:, None], -torch.inf)
    column = (taste + draw.gumbel(tables, questions, columns)).argmax(-1)
    values = seen.gather(2, column[:, None].expand(-1, rows, -1))
    thresholds = values.gather(1, draw.below(rows, tables, 1, questions))
    asked = torch.arange(DEPTH, device=draw.device) <= draw.below(DEPTH, tables, 1, TREES, 1)
    bits = (values > thresholds).view(tables, rows, TREES, DEPTH) & asked
    leaf = (bits * 2 ** torch.arange(DEPTH, device=draw.device)).sum(-1)
    grown = torch.arange(TREES, device=draw.device) <= TREES * draw.uniform(tables, 1).pow(3)
    value = draw.normal(tables, TREES, 2**DEPTH, MAX_CLASSES) * grown[..., None, None]
    return _standard(torch.stack([_taken(value[:, tree], leaf[..., tree]) for tree in range(TREES)]).sum(0))


def _right(
    draw: Draw, target: Tensor, n_classes: Tensor, choices: Tensor, cluster: Tensor, densities: Tensor
) -> tuple[Tensor, Tensor]:
    """Return scores of classes, whose softmax is the world's probability, and the classes drawn."""
    tables, rows = cluster.shape
    classes = torch.arange(MAX_CLASSES, device=draw.device)
    no_class = (classes >= n_classes[:, None])[:, None]
    scores = choices[target.clamp(max=2), torch.arange(tables, device=draw.device)]
    scores = (scores * draw.log_uniform(tables, 1, 1, low=8.0, high=200.0)).masked_fill(no_class, -torch.inf)
    share = (draw.normal(tables, MAX_CLASSES) * 1.2 * draw.uniform(tables, 1)).masked_fill(no_class[:, 0], -torch.inf)
    share = share.log_softmax(-1)
    for _ in range(6):  # towards the shares wanted; a share need not be met
        now = scores.softmax(-1).mean(1).clamp(min=1e-5).log()
        scores = scores + torch.where(no_class, 0.0, (share - now).masked_fill(no_class[:, 0], 0)[:, None])
    drawn = (scores + draw.gumbel(tables, rows, MAX_CLASSES)).argmax(-1)
    own = torch.arange(CLUSTERS, device=draw.device).expand(tables, -1)
    of_cluster = torch.where(own < n_classes[:, None], own, draw.below(n_classes[:, None], tables, CLUSTERS))
    by_cluster = torch.full((tables, rows, MAX_CLASSES), -1e4, device=draw.device).scatter_reduce(
        2, of_cluster[:, None].expand(-1, rows, -1), densities.clamp(min=-1e4), "amax"
    )
    clustered = target == TARGETS.index("clusters")
    right = torch.where(clustered[:, None], of_cluster.gather(1, cluster), drawn)
    return torch.where(clustered[:, None, None], by_cluster.masked_fill(no_class, -torch.inf), scores), right


def _classes_shuffled(draw: Draw, n_classes: Tensor, right: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Give the classes other numbers."""
    keys = draw.uniform(len(right), MAX_CLASSES)
    keys = keys + (torch.arange(MAX_CLASSES, device=draw.device) >= n_classes[:, None])
    new_at = keys.argsort(-1)  # the old number of each new class
    return new_at.argsort(-1).gather(1, right), scores.gather(2, new_at[:, None].expand_as(scores))


def _given(draw: Draw, right: Tensor, scores: Tensor, seen: Tensor, n_classes: Tensor) -> tuple[Tensor, Tensor]:
    """Return labels that are partly wrong, and the kind of noise of each table."""
    tables, rows = right.shape
    noise = draw.kind(NOISE_SHARES, tables)
    is_kind = {name: noise == i for i, name in enumerate(NOISES)}
    even = 0.9 * (1 - 1 / n_classes)
    one_class = is_kind["pair"] | is_kind["by class"] | is_kind["boundary"]
    most = torch.where(one_class, MOST_PAIR, even.clamp(max=MOST_SYMMETRIC))
    rate = most * draw.uniform(tables)
    to = _to_classes(draw, right, scores, n_classes, is_kind)
    chance = _chances(draw, right, scores, seen, rate, is_kind)
    # Beyond this a place would say more of the noise than of its rows.
    limit = torch.where(is_kind["symmetric"], most, torch.where(is_kind["by class"] | (n_classes == 2), 0.55, 0.7))
    is_wrong = draw.uniform(tables, rows) < torch.minimum(chance, limit[:, None]) * ~is_kind["none"][:, None]
    wrong = (to + draw.gumbel(tables, rows, MAX_CLASSES)).argmax(-1)
    return torch.where(is_wrong, wrong, right), noise


def _place(draw: Draw, values: Tensor) -> Tensor:
    """Return a weight of each row by the rank of its value: falling slowly or fast, or a step."""
    tables, rows = values.shape
    place = (values.argsort(1).argsort(1) + 0.5) / rows
    width = draw.log_uniform(tables, 1, low=0.08, high=0.6)
    weight = torch.where(draw.chance(0.5, tables, 1), torch.exp(-place / width), (place < width) + 0.05)
    return weight / weight.mean(1, keepdim=True)


def _chances(
    draw: Draw, right: Tensor, scores: Tensor, seen: Tensor, rate: Tensor, is_kind: dict[str, Tensor]
) -> Tensor:
    """Return the probability that each row's label is wrong."""
    tables, rows = right.shape
    # Who errs near a boundary errs near the true one, or near the straight one that a simple view has.
    straight = draw.chance(0.5, tables, 1, 1)
    best = torch.where(straight, _centroid_scores(seen, right, scores), scores).topk(2, -1).values
    margin = _place(draw, best[..., 0] - best[..., 1] + 1e-3 * draw.uniform(tables, rows))
    direction = draw.normal(tables, seen.shape[-1], 1) * draw.chance(0.3, tables, seen.shape[-1], 1)
    region = _place(draw, (seen @ direction)[..., 0])
    of_class = (2 * draw.uniform(tables, MAX_CLASSES)).gather(1, right)
    annotator = torch.where(
        draw.chance(0.5, tables, 1), draw.below(4, tables, rows), (seen[..., 0].sigmoid() * 4).long().clamp(max=3)
    )
    of_annotator = (2 * draw.uniform(tables, 4)).gather(1, annotator)
    factor = torch.ones(tables, rows, device=draw.device)
    factors = {"by class": of_class, "boundary": margin, "region": region, "annotators": of_annotator}
    for name, values in factors.items():
        factor = torch.where(is_kind[name][:, None], values, factor)
    return rate[:, None] * factor


def _centroid_scores(seen: Tensor, right: Tensor, scores: Tensor) -> Tensor:
    """Return linear scores of the classes: which class's mean a row is nearest to."""
    member = (right[..., None] == torch.arange(MAX_CLASSES, device=right.device)).to(seen.dtype)
    count = member.sum(1)
    mean = member.mT @ seen / count[..., None].clamp(min=1)
    linear = seen @ mean.mT - 0.5 * mean.square().sum(-1)[:, None]
    return linear.masked_fill(scores.isneginf() | (count == 0)[:, None], -torch.inf)


def _to_classes(draw: Draw, right: Tensor, scores: Tensor, n_classes: Tensor, is_kind: dict[str, Tensor]) -> Tensor:
    """Return for each row the log-weights of the classes that a wrong label may be."""
    tables = len(right)
    classes = torch.arange(MAX_CLASSES, device=draw.device)
    taste = 2 * draw.normal(tables, MAX_CLASSES, MAX_CLASSES) * draw.chance(0.7, tables, 1, 1)
    follower = (classes[:, None] + 1) % n_classes[:, None, None] == classes
    pair = torch.where(follower, 0.0, -50.0)
    matrix = torch.where(is_kind["symmetric"][:, None, None], 0.0, taste)
    as_pair = is_kind["pair"] | ((is_kind["region"] | is_kind["boundary"]) & draw.chance(0.4, tables))
    to = _taken(torch.where(as_pair[:, None, None], pair, matrix), right)
    two = scores.topk(2, -1).indices
    other = torch.where(two[..., 0] == right, two[..., 1], two[..., 0])
    runner_up = torch.where(classes == other[..., None], 0.0, -50.0)
    to = torch.where((is_kind["boundary"] & draw.chance(0.5, tables))[:, None, None], runner_up, to)
    return to.masked_fill((classes >= n_classes[:, None, None]) | (classes == right[..., None]), -torch.inf)


def _observed(draw: Draw, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Bend, quantise or cut columns into categories; return the columns and which are categorical."""
    tables, rows, columns = seen.shape
    kind = draw.kind((0.4, 0.12, 0.1, 0.1, 0.18, 0.1), tables, columns)[:, None]
    size = draw.log_uniform(tables, 1, columns, low=0.4, high=1.5)
    ranks = (seen.argsort(1).argsort(1) + 0.5) / rows
    levels = (2 + 30 * draw.uniform(tables, 1, columns).square()).floor()
    offset = draw.normal(tables, 1, columns)
    bent = (
        seen,
        torch.exp((size * seen).clamp(max=8)),
        seen * seen.abs(),
        ranks,
        (seen * levels / 4).round(),
        torch.relu(seen - offset),
    )
    x = seen
    for i, values in enumerate(bent):
        x = torch.where(kind == i, values, x)
    share = draw.uniform(tables, 1) * draw.chance(0.45, tables, 1)
    is_categorical = draw.chance(share, tables, columns)
    n_codes = 2 + (draw.uniform(tables, 1, columns).square() * 11).long()
    skew = draw.log_uniform(tables, 1, columns, low=0.4, high=2.5)
    code = (ranks.pow(skew) * n_codes).long().clamp(max=12)
    names = draw.order(tables, columns, 13)  # codes without an order, in half the columns
    named = names.gather(2, code.mT).mT
    code = torch.where(draw.chance(0.5, tables, 1, columns), named, code)
    return torch.where(is_categorical[:, None], code.to(x.dtype), x), is_categorical


def _with_missing(draw: Draw, x: Tensor) -> Tensor:
    """Take values away, by chance or where they are large."""
    tables, _, columns = x.shape
    share = 0.4 * draw.uniform(tables, 1, columns).square() * draw.chance(0.3, tables, 1, 1)
    share = share * draw.chance(0.5, tables, 1, columns)
    by_value = draw.chance(0.3, tables, 1, columns)
    chance = torch.where(by_value, 2 * share * _standard(x).sigmoid(), share)
    return torch.where(draw.uniform(*x.shape) < chance, torch.nan, x)
