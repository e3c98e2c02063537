"""
Choosing a loss
===============

Five losses, three noise rates, one network: which one is best depends on how many labels are wrong. Each loss is made
by its name, with its default parameters, and all have one learning rate. On your own data, tune before you conclude
anything: `mgce-lab compare` does.

Runs in seconds: `python examples/choosing_a_loss.py`.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from mgce import robust_loss
from mgce.noise import corrupt, symmetric

NAMES = {"ce": "cross-entropy", "mgce": "MGCE", "gce": "GCE", "sce": "symmetric CE", "nce+rce": "NCE + RCE"}
RATES = (0.0, 0.2, 0.4)

digits, classes = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
X, X_test, y, y_test = train_test_split(digits.float() / 16, classes, random_state=0)


def accuracy(criterion, labels):
    """Train a network, and measure it on right labels."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.006)
    for _ in range(25):
        for rows in torch.randperm(len(X)).split(128):
            optimizer.zero_grad()
            criterion(network(X[rows]), labels[rows]).backward()
            optimizer.step()
    return 100 * (network(X_test).argmax(1) == y_test).float().mean().item()


# %%
# One seed: differences of a point or two are luck.

for rate in RATES:
    noisy = corrupt(y, symmetric(10, rate), torch.Generator().manual_seed(0)).labels
    results = [accuracy(robust_loss(name), noisy) for name in NAMES]
    places = [rate * 10 + 0.3 * i for i in range(len(results))]
    plt.bar(places, results, 0.28, color=[f"C{i}" for i in range(len(results))])
    row = ", ".join(f"{name} {result:.1f}" for name, result in zip(NAMES.values(), results, strict=True))
    print(f"{rate:.0%} wrong: {row}")
plt.xticks([rate * 10 + 0.6 for rate in RATES], [f"{rate:.0%} wrong labels" for rate in RATES])
plt.ylim(70, 100)
plt.ylabel("accuracy on right labels, %")
plt.legend(
    [plt.Rectangle((0, 0), 1, 1, color=f"C{i}") for i in range(len(NAMES))],
    NAMES.values(),
    ncols=5,
    fontsize="small",
    loc="upper center",
    bbox_to_anchor=(0.5, 1.12),
    frameon=False,
)
plt.show()
