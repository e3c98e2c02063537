"""
Wrong labels found
==================

About one in twenty labels of the digits is made wrong. A robust classifier, cross-validated so that no row is judged by
a model that has seen it, ranks the labels; the first of the list are the ones to look at again.

Runs in seconds: `python examples/wrong_labels.py`.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mgce import MGCEClassifier
from mgce.functional import mgce_loss
from mgce.noise import corrupt, symmetric

X, y = load_digits(return_X_y=True)
labels, wrong = corrupt(torch.from_numpy(y), symmetric(10, 0.05), torch.Generator().manual_seed(0))
model = make_pipeline(StandardScaler(), MGCEClassifier(beta=1.4, lambda0=0.003, tol=1e-3))
f = torch.from_numpy(cross_val_predict(model, X, labels.numpy(), cv=3, method="decision_function"))

# %%
# The loss of a row is how little the model believes its label.

suspicion = mgce_loss(f, labels, beta=1.4, reduction="none")
ranked = suspicion.argsort(descending=True)
n_wrong = int(wrong.sum())
print(f"{n_wrong} labels are wrong; of the {n_wrong} most suspect, {wrong[ranked[:n_wrong]].double().mean():.0%} are.")

# %%
# The twelve most suspect rows, with the label that was given and the class that the model would choose.

figure, panels = plt.subplots(2, 6, figsize=(9, 3.6), layout="constrained")
for axes, row in zip(np.ravel(panels), ranked[:12], strict=True):
    axes.imshow(X[row].reshape(8, 8), cmap="gray_r")
    axes.set_title(f"given {labels[row]}, looks like {f[row].argmax()}", fontsize=8)
    axes.axis("off")
plt.show()
