"""
A penalty against memorising
============================

A network with room for all labels learns the wrong ones by heart, with MGCE as with cross-entropy. An L1 penalty on its
weights and biases, which is not the `weight_decay` of an optimizer, keeps it from most of that, and rows whose labels
are as noisy choose the size: nothing that trains or chooses knows which labels are right, nor how many.

Runs in 10 to 30 seconds: `python examples/l1_penalty.py`.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from mgce import MGCELoss
from mgce.noise import corrupt, symmetric

# For a loss that is the mean over a batch. Where the largest is chosen, try a larger one.
SIZES = (0.0, 0.0003, 0.001, 0.003)

digits, classes = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
X, X_test, y, y_test = train_test_split(digits.float() / 16, classes, random_state=0)
noisy = corrupt(y, symmetric(10, 0.4), torch.Generator().manual_seed(0)).labels
X, X_valid, noisy, noisy_valid = train_test_split(X, noisy, test_size=300, random_state=0)


def accuracies(criterion, size):
    """Train a network with a penalty; measure it on noisy validation rows and on right test labels."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(60):
        for rows in torch.randperm(len(X)).split(128):
            optimizer.zero_grad()
            penalty = sum(parameter.abs().sum() for parameter in network.parameters())
            (criterion(network(X[rows]), noisy[rows]) + size * penalty).backward()
            optimizer.step()
    pairs = ((X_valid, noisy_valid), (X_test, y_test))
    with torch.no_grad():
        return [100 * (network(inputs).argmax(1) == labels).float().mean().item() for inputs, labels in pairs]


# %%
# Four in ten of the validation labels are wrong, so that no network can have many more than 60 % of them right. An
# accuracy on 300 labels scatters by 3 points; that is enough to choose a size here. Beta is 1.05, which resists wrong
# labels best where images are many; on few it hardly matters.

for name, criterion in (("cross-entropy", torch.nn.CrossEntropyLoss()), ("MGCE", MGCELoss(beta=1.05))):
    valid, test = zip(*(accuracies(criterion, size) for size in SIZES), strict=True)
    chosen = valid.index(max(valid))
    print(f"{name:13} no penalty {test[0]:.1f} %; chosen {SIZES[chosen]:g}, with which it has {test[chosen]:.1f} %")
    (line,) = plt.plot(test, "o-", label=f"{name}, right test labels")
    plt.plot(valid, "o--", color=line.get_color(), label=f"{name}, noisy validation labels")
plt.xticks(range(len(SIZES)), [f"{size:g}" for size in SIZES])
plt.xlabel("L1 penalty")
plt.ylabel("accuracy after the last epoch, %")
plt.legend()
plt.show()
