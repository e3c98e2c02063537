"""
Noisy images in 20 lines
========================

Digits of which four training labels in ten are wrong: the same network with three losses. With cross-entropy it learns
the wrong labels by heart.

Runs in seconds: `python examples/noisy_images.py`.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from mgce import GCELoss, MGCELoss
from mgce.noise import corrupt, symmetric

digits, classes = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
X, X_test, y, y_test = train_test_split(digits.float() / 16, classes, random_state=0)
noisy = corrupt(y, symmetric(10, 0.4), torch.Generator().manual_seed(0)).labels


def accuracy_by_epoch(criterion):
    """Train a network on the wrong labels, and measure it on right ones after each epoch."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
    for _ in range(40):
        for rows in torch.randperm(len(X)).split(64):
            optimizer.zero_grad()
            criterion(network(X[rows]), noisy[rows]).backward()
            optimizer.step()
        yield 100 * (network(X_test).argmax(1) == y_test).float().mean().item()


# %%
# `MGCELoss` takes the place of `nn.CrossEntropyLoss`; with an infinite beta it is the same loss.

curves = {
    "cross-entropy": list(accuracy_by_epoch(torch.nn.CrossEntropyLoss())),
    "GCE, beta = 1.4": list(accuracy_by_epoch(GCELoss(beta=1.4))),
    "MGCE, beta = 1.4": list(accuracy_by_epoch(MGCELoss(beta=1.4))),
}
for name, curve in curves.items():
    plt.plot(curve, label=name)
    print(f"{name:16} best {max(curve):.1f} %, at the end {curve[-1]:.1f} %")
plt.xlabel("epoch")
plt.ylabel("accuracy on right labels, %")
plt.legend()
plt.show()
