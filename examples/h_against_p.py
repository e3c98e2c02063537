"""
h against p
===========

A model trained by MGCE has two outputs: h, the classifier, which is sure and has exact zeros, and p, which estimates
the distribution of the labels as trained on. This example measures both, on labels as noisy as those of the training.

Runs in seconds: `python examples/h_against_p.py`.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import make_blobs
from sklearn.model_selection import train_test_split

from mgce import MGCELoss
from mgce.functional import minimax_probs, worst_case_probs
from mgce.metrics import expected_calibration_error, reliability_curve
from mgce.noise import corrupt, symmetric

BETA = 2.0
points, classes = make_blobs(8000, centers=[[0, 0], [2, 0], [1, 1.7]], cluster_std=0.8, random_state=0)
noisy = corrupt(torch.from_numpy(classes), symmetric(3, 0.2), torch.Generator().manual_seed(0)).labels
X, X_test, y, y_test = train_test_split(torch.from_numpy(points).float(), noisy, test_size=0.5, random_state=0)

# %%
# Three overlapping clouds, one label in five wrong, and a network that can bend its logits as it needs.

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3))
criterion = MGCELoss(beta=BETA)
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
for _ in range(20):
    for rows in torch.randperm(len(X)).split(128):
        optimizer.zero_grad()
        criterion(network(X[rows]), y[rows]).backward()
        optimizer.step()
logits = network(X_test).detach()

# %%
# The same logits, two links. The order of the classes is the same in both.

outputs = {"h, minimax": minimax_probs(logits, beta=BETA), "p, worst-case": worst_case_probs(logits, beta=BETA)}
for name, probs in outputs.items():
    print(f"{name}, one row: {probs[0].numpy().round(2)}")

# %%
# Bars on the dashed line are calibrated; below it a model is too sure.

figure, panels = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for axes, (name, probs) in zip(panels, outputs.items(), strict=True):
    reliability_curve(probs, y_test).plot(axes)
    error = expected_calibration_error(probs, y_test)
    axes.set_title(f"{name}: calibration error {error:.3f}")
    accuracy = (probs.argmax(1) == y_test).double().mean()
    print(f"{name}: accuracy {accuracy:.3f}, calibration error {error:.3f}")
plt.show()

# %%
# Where the logits are not free, as in a linear model, p is too unsure: then a temperature helps
# (:class:`mgce.losses.TemperatureScaling`).
