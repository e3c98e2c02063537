"""Store decision trees as arrays, which can be loaded from a file without running code, and are checked before use.

scikit-learn's own tree objects, read from a file, would follow wrong indices to any place in memory. Here `Trees.check`
first makes sure that the arrays describe trees. Only then does scikit-learn's compiled code use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

from mgce._limits import CHUNK_ROWS
from mgce._messages import expected

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Nodes(NamedTuple):
    """The nodes of one tree as arrays, in which each child comes after its parent."""

    children: IntArray  # (nodes, 2): left and right; anything for a leaf
    is_leaf: NDArray[np.bool_]  # (nodes,)
    feature: IntArray  # (nodes,): index of the feature whose value is compared; anything for a leaf
    threshold: FloatArray  # (nodes,): a row goes left if its value is at most this
    value: NDArray[Any]  # (nodes, m): the values of a leaf, for the rows that fall into it

    @classmethod
    def of(cls, tree: Any, value: NDArray[Any]) -> Nodes:
        """Return the nodes of a tree of scikit-learn; node i gets the row i of `value`, shape (nodes, m)."""
        children = np.stack([tree.children_left, tree.children_right], 1)
        return cls(children, tree.children_left < 0, tree.feature, tree.threshold, value.astype(np.float32))


class Trees:
    """Several decision trees in shared arrays; each array holds one attribute of all nodes of all trees.

    Args:
        trees: the nodes of each tree.

    Attributes:
        starts: index of the root node of each tree, shape (trees,).
        children: for an inner node, the indices of its left and right child; for leaf number i, -1 - i and -1. Shape
            (nodes, 2).
        features, thresholds: for an inner node, the feature to compare with the threshold, shape (nodes,). Rows with
            values up to the threshold go left.
        values: the m numbers of each leaf, shape (leaves, m).
    """

    def __init__(self, trees: Sequence[Nodes]) -> None:
        starts = np.cumsum([0, *(len(tree.is_leaf) for tree in trees)])
        leaf = np.concatenate([tree.is_leaf for tree in trees])
        children = [tree.children.astype(np.int64) + start for tree, start in zip(trees, starts[:-1], strict=True)]
        self.starts = starts[:-1]
        self.children = np.where(leaf[:, None], -1, np.concatenate(children))
        self.children[leaf, 0] = -1 - np.arange(leaf.sum())  # numbers of leaves are negative, places of nodes are not
        self.features = np.where(leaf, 0, np.concatenate([tree.feature for tree in trees])).astype(np.int64)
        self.thresholds = np.where(leaf, 0.0, np.concatenate([tree.threshold for tree in trees]))
        self.values = np.concatenate([tree.value for tree in trees])[leaf]

    @classmethod
    def of_arrays(
        cls, starts: IntArray, children: IntArray, features: IntArray, thresholds: FloatArray, values: NDArray[Any]
    ) -> Trees:
        """Return trees with these arrays as attributes (see the class), without checking them."""
        trees = cls.__new__(cls)
        trees.starts, trees.children, trees.features = starts, children, features
        trees.thresholds, trees.values = thresholds, values
        return trees

    @classmethod
    def of_forests(cls, forests: Sequence[Trees], n: int) -> Trees:
        """Return the first n trees of each of several forests as one."""
        found = [forest._first(n) for forest in forests]
        nodes = np.cumsum([0, *(len(one.children) for one in found)])
        leaves = np.cumsum([0, *(len(one.values) for one in found)])
        children = []
        for one, node, leaf in zip(found, nodes[:-1], leaves[:-1], strict=True):
            is_leaf = one.children[:, :1] < 0
            children.append(np.where(is_leaf, one.children - np.array([leaf, 0]), one.children + node))
        return cls.of_arrays(
            np.concatenate([one.starts + node for one, node in zip(found, nodes[:-1], strict=True)]),
            np.concatenate(children),
            *(np.concatenate([getattr(one, name) for one in found]) for name in ("features", "thresholds", "values")),
        )

    def _first(self, n: int) -> Trees:
        if n >= len(self.starts):
            return self
        end = int(self.starts[n])
        leaves = int((self.children[:end, 0] < 0).sum())  # leaves are numbered in the order of the nodes
        parts = self.starts[:n], self.children[:end], self.features[:end], self.thresholds[:end]
        return Trees.of_arrays(*parts, self.values[:leaves])

    def sums(self, rows: NDArray[np.floating[Any]]) -> FloatArray:
        """Return sums over the trees of the leaf values of each row.

        A row falls into one leaf of each tree, and each leaf holds m numbers.

        Args:
            rows: n rows of d features, shape (n, d), finite, in the precision of the features that the trees were grown
                on.

        Returns:
            Sums, shape (n, m).
        """
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        no_categories, no_map = np.zeros((0, 8), dtype=np.uint32), np.zeros(0, dtype=np.uint32)
        sums = np.zeros((len(rows), self.values.shape[1]))
        for predictor in self._predictors():
            for first in range(0, len(rows), CHUNK_ROWS):
                part = slice(first, first + CHUNK_ROWS)
                leaves = predictor.predict(rows[part], no_categories, no_map, 1)
                sums[part] += self.values[leaves.astype(np.int64)]
        return sums

    def _predictors(self) -> Iterator[TreePredictor]:
        """Yield each tree as an object of scikit-learn's boosting that predicts the number of the leaf of a row."""
        no_categories = np.zeros((0, 8), dtype=np.uint32)
        for start, end in zip(self.starts, np.append(self.starts[1:], len(self.children)), strict=True):
            left, right = self.children[start:end].T
            leaf, nodes = left < 0, np.zeros(end - start, dtype=PREDICTOR_RECORD_DTYPE)
            nodes["is_leaf"], nodes["value"] = leaf, np.where(leaf, -1 - left, 0)
            nodes["feature_idx"], nodes["num_threshold"] = self.features[start:end], self.thresholds[start:end]
            nodes["left"], nodes["right"] = (np.where(leaf, 0, child - start) for child in (left, right))
            yield TreePredictor(nodes, no_categories, no_categories)

    def check(self, n_features: int, n_values: int) -> None:
        """Check that the arrays, which may come from a file that anyone wrote, describe trees.

        After this check, going down a tree from its root always ends at a leaf, and no index leaves its array.

        Args:
            n_features: number of features of a row.
            n_values: m, the number of values that each leaf holds.

        Raises:
            ValueError: if the arrays do not describe trees.
        """
        # Whole numbers: compiled code would cut others off, and 3.5 for a child of node 3 is a circle.
        if any(array.dtype != np.int64 for array in (self.starts, self.children, self.features)):
            raise ValueError(expected("trees_", "the trees of a fitted model", "arrays that are none"))
        n_nodes, leaf = len(self.children), self.children[:, 0] < 0
        places, inner = np.flatnonzero(~leaf), self.children[~leaf]
        ends = np.append(self.starts[1:], n_nodes)
        whole = (
            len(self.features) == len(self.thresholds) == n_nodes
            and self.children.shape[1:] == (2,)
            and self.values.shape == (leaf.sum(), n_values)
            and np.array_equal(np.sort(-1 - self.children[leaf, 0]), np.arange(leaf.sum()))
            and len(self.starts) > 0
            and self.starts[0] == 0
            and bool((self.starts < ends).all())
            # Every child is in its parent's tree, and has a higher index than its parent, so there is no cycle.
            and bool((inner > places[:, None]).all())
            and bool((inner < np.repeat(ends, ends - self.starts)[places][:, None]).all())
            and bool((self.features >= 0).all() and (self.features < n_features).all())
        )
        if not whole:
            raise ValueError(expected("trees_", "the trees of a fitted model", "arrays that are none"))
