"""
A noisy table in scikit-learn
=============================

A table with wrong labels: a convex classifier on kernel features, its certificate, and the labels to look at again.

Runs in seconds: `python examples/noisy_table.py`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from mgce import MGCEClassifier

NOISE_RATE = 0.3

X, y = load_digits(return_X_y=True)
X, X_fresh, y, y_fresh = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)

# Three labels in ten become one of the nine others, in the rows to train on and in the fresh ones.
generator = np.random.default_rng(0)


def with_wrong_labels(labels):
    """Return the labels as a careless annotator would."""
    wrong = generator.random(len(labels)) < NOISE_RATE
    return np.where(wrong, (labels + generator.integers(1, 10, len(labels))) % 10, labels), wrong


noisy, _ = with_wrong_labels(y)
noisy_fresh, wrong_fresh = with_wrong_labels(y_fresh)


def features():
    """Return kernel features: linear in them is not linear in the pixels."""
    return make_pipeline(MinMaxScaler(), Nystroem(gamma=0.03, n_components=100, random_state=0), StandardScaler())


ours = make_pipeline(features(), MGCEClassifier(beta=1.4, lambda0=0.01)).fit(X, noisy)
theirs = make_pipeline(features(), LogisticRegression(C=1 / (0.01 * len(X)), max_iter=1000)).fit(X, noisy)
print(f"Accuracy on right labels: MGCE {ours.score(X_fresh, y_fresh):.3f}, ", end="")
print(f"logistic regression {theirs.score(X_fresh, y_fresh):.3f}")

# Fresh labels are as noisy; the certificate corrects for that, and is about the right ones.
Z, classifier = ours[0].transform(X_fresh), ours[-1]
print(classifier.certify(Z, noisy_fresh, noise_rate=NOISE_RATE))

suspects = classifier.suspect_labels(Z, noisy_fresh)[: wrong_fresh.sum()]
found = wrong_fresh[suspects].mean()
print(f"Of the {len(suspects)} most suspect labels, {found:.0%} are wrong; of all, {wrong_fresh.mean():.0%}.")

# %%
# The same for shorter and longer lists.

right = np.cumsum(wrong_fresh[classifier.suspect_labels(Z, noisy_fresh)])
looked_at = np.arange(1, len(right) + 1)
plt.plot(looked_at, 100 * right / looked_at, label="wrong among those looked at")
plt.axhline(100 * wrong_fresh.mean(), color="0.5", linestyle="--", label="wrong among all")
plt.xlabel("labels looked at, the most suspect first")
plt.ylabel("%")
plt.legend()
plt.show()
