"""ELRLoss against NumPy, row by row."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import nn

from losses.ddp_worker import ROWS, K
from mgce import ELRLoss, GCELoss


def by_hand(logits, target, index, memory, strength, momentum):
    """The losses of a step, with the running averages of rows changed in place."""
    found = []
    for f, y, i in zip(logits, target, index, strict=True):
        p = np.clip(softmax(f), 1e-4, 1 - 1e-4)
        memory[i] = momentum * memory[i] + (1 - momentum) * p / p.sum()
        found.append(-log_softmax(f)[y] + strength * np.log(1 - memory[i] @ p))
    return np.array(found)


@pytest.mark.parametrize(("strength", "momentum"), [(3.0, 0.7), (7.0, 0.9), (0.0, 0.0)])
def test_steps_are_those_of_numpy(strength, momentum):
    criterion = ELRLoss(ROWS, K, strength=strength, momentum=momentum, reduction="none").double()
    memory, generator = np.zeros((ROWS, K)), np.random.default_rng(0)
    for _ in range(5):
        index = generator.permutation(ROWS)[:4]
        logits, target = generator.normal(size=(4, K)) * 4, generator.integers(K, size=4)
        want = by_hand(logits, target, index, memory, strength, momentum)
        found = criterion(*map(torch.from_numpy, (logits, target, index)))
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6)  # probabilities are of float32
        np.testing.assert_allclose(criterion.targets, memory, atol=1e-7)


def test_the_gradient_does_not_reach_the_running_average():
    logits = torch.tensor([[2.0, -1.0, 0.5]], requires_grad=True)
    criterion = ELRLoss(ROWS, K, GCELoss(beta=1.4, reduction="none"))
    criterion(logits, torch.tensor([0]), torch.tensor([4])).backward()
    fixed = criterion.targets[4].clone()
    leaf = logits.detach().clone().requires_grad_()
    own = GCELoss(beta=1.4)(leaf, torch.tensor([0])) + 3 * torch.log(1 - (fixed * leaf.softmax(1)).sum())
    own.backward()
    torch.testing.assert_close(logits.grad, leaf.grad)


def test_wrong_labels_are_not_memorised():
    """A line of many parameters: cross-entropy learns all labels, with ELR the wrong rows keep their right classes."""
    torch.manual_seed(0)
    x = torch.randn(60, 200)
    right = (x[:, 0] > 0).long()
    x[:, 0] += 6 * (2 * right - 1)
    wrong = torch.arange(60) % 4 == 0
    given = torch.where(wrong, 1 - right, right)
    followed = {}
    for name, criterion in (("ce", ELRLoss(60, 2, strength=0)), ("elr", ELRLoss(60, 2, strength=10, momentum=0.9))):
        torch.manual_seed(0)
        line = nn.Linear(200, 2)
        optimizer = torch.optim.SGD(line.parameters(), 0.05)
        for _ in range(1000):
            criterion(line(x), given, torch.arange(60)).backward()
            optimizer.step()
            optimizer.zero_grad()
        followed[name] = (line(x).argmax(1) == given)[wrong].double().mean().item()
    assert followed["ce"] == 1
    assert followed["elr"] < 0.2
