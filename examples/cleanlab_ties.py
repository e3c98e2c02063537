"""
cleanlab without ties
=====================

Wrong labels by cleanlab's four filters, with the probabilities h, h without ties, and p.

Runs in seconds: `pip install cleanlab && python examples/cleanlab_ties.py`.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from cleanlab.filter import find_label_issues
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mgce import MGCEClassifier
from mgce.functional import minimax_probs, worst_case_probs
from mgce.integrations.untied import untied_probs
from mgce.noise import corrupt, symmetric

BETA = 1.4
X, y = load_digits(return_X_y=True)
noisy, flipped = corrupt(torch.from_numpy(y), symmetric(10, 0.2), torch.Generator().manual_seed(0))
labels, flipped = noisy.numpy(), flipped.numpy()
model = make_pipeline(StandardScaler(), MGCEClassifier(BETA, lambda0=0.003, tol=1e-3))
f = cross_val_predict(model, X, labels, cv=5, method="decision_function")

h = minimax_probs(torch.from_numpy(f), beta=BETA).numpy()
outputs = {"h": h, "untied": untied_probs(f, beta=BETA), "p": worst_case_probs(torch.from_numpy(f), beta=BETA).numpy()}
rows = np.arange(len(labels))
print(f"Labels with an h of exactly 0: {(h[rows, labels] == 0).mean():.1%}")
precisions = {}
for name, probs in outputs.items():
    ranked = precisions[name] = average_precision_score(flipped, -probs[rows, labels])
    print(f"{name:7} average precision of the ranking {ranked:.3f}")
    for filter_by in ("prune_by_noise_rate", "prune_by_class", "both", "confident_learning"):
        found = find_label_issues(labels, probs, filter_by=filter_by, n_jobs=1)
        print(f"        {filter_by:20} precision {(found & flipped).sum() / found.sum():.3f}", end="")
        print(f"  recall {(found & flipped).sum() / flipped.sum():.3f}")
plt.bar(list(precisions), list(precisions.values()))
plt.ylabel("average precision of the ranking")
plt.show()
