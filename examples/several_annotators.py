"""
Three people labelled each row
==============================

Three columns of labels to one model, with a list of rows to look at and a sentence on each annotator.

Runs in seconds: `python examples/several_annotators.py`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from mgce import ConsensusClassifier

# Five digits, and three people: the first is careful, the second is not, and the third takes half of the 1 for 4.
X, y = load_digits(n_class=5, return_X_y=True)
X, X_fresh, y, y_fresh = X[:500], X[500:], y[:500], y[500:]
generator = np.random.default_rng(0)


def labelled(wrong_rate):
    """Return the labels of a person who is wrong on a share of the rows."""
    wrong = generator.random(len(y)) < wrong_rate
    return np.where(wrong, (y + generator.integers(1, 5, len(y))) % 5, y).astype(float)


labels = np.stack([labelled(0.1), labelled(0.35), labelled(0.2)], axis=1)
labels[(y == 1) & (generator.random(len(y)) < 0.5), 2] = 4
labels[generator.random(labels.shape) < 0.3] = np.nan  # nobody labelled all rows

clf = ConsensusClassifier(random_state=0).fit(X, labels)
consensus = clf.consensus_
first = np.where(np.isnan(labels[:, 0]), np.where(np.isnan(labels[:, 1]), labels[:, 2], labels[:, 1]), labels[:, 0])
print(f"First label of each row right: {np.mean(first == y):.1%}; consensus: {np.mean(consensus.labels == y):.1%}")
print(f"Accuracy of the model on fresh rows: {clf.score(X_fresh, y_fresh):.1%}")

# A sentence on each annotator, and whether they err independently of one another.
for annotator in consensus.annotators:
    print(annotator)
print(consensus.independence)

# Rows to look at, and rows for which one more label is worth most.
wrong = consensus.labels != y
for row in consensus.order[:5]:
    print(f"Row {row}: labels {labels[row]}, consensus {consensus.labels[row]:g}, {consensus.quality[row]:.0%} sure")
print(f"Wrong among the 50 most doubtful rows: {wrong[consensus.order[:50]].sum()}; among all: {wrong.sum()}")
print("Ask about rows", consensus.rows_to_label(5).tolist())

# %%
# What is estimated of each annotator's accuracy, and what it is.

places = np.arange(3)
found = np.array([[one.estimated_accuracy, *one.estimated_range] for one in consensus.annotators])
true = [np.nanmean(np.where(np.isnan(labels[:, j]), np.nan, labels[:, j] == y)) for j in range(3)]
plt.errorbar(
    places, 100 * found[:, 0], 100 * np.abs(found[:, 1:] - found[:, :1]).T, fmt="o", label="estimated, with its range"
)
plt.plot(places, 100 * np.array(true), "x", label="true")
plt.xticks(places, ["first", "second", "third"])
plt.ylabel("labels that are right, %")
plt.legend()
plt.show()
