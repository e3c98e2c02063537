"""SelfAdaptiveLoss against NumPy, row by row."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch.nn import functional as F

from losses.ddp_worker import ROWS, K
from mgce_lab.losses import SelfAdaptiveLoss


@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize("soft", [False, True])
def test_steps_are_those_of_numpy(start, soft):
    criterion = SelfAdaptiveLoss(ROWS, K, start=start, momentum=0.8)
    generator = np.random.default_rng(0)
    labels = np.eye(K)[generator.integers(K, size=ROWS)]
    if soft:
        labels = generator.dirichlet(np.ones(K), size=ROWS)
    memory, visits = labels.copy(), np.zeros(ROWS, int)
    for _ in range(8):
        index = generator.permutation(ROWS)[:4]
        logits = 3 * generator.normal(size=(4, K))
        for f, i in zip(logits, index, strict=True):
            if visits[i] >= start:
                memory[i] = 0.8 * memory[i] + 0.2 * softmax(f)
            visits[i] += 1
        losses, weight = -(log_softmax(logits, 1) * memory[index]).sum(1), memory[index].max(1)
        target = torch.from_numpy(labels[index]) if soft else torch.from_numpy(labels[index].argmax(1))
        found = criterion(torch.from_numpy(logits), target, torch.from_numpy(index))
        np.testing.assert_allclose(found, (weight * losses).sum() / weight.sum(), rtol=1e-6)
    np.testing.assert_array_equal(criterion.visits, visits)
    seen = visits > 0
    np.testing.assert_allclose(criterion.targets[seen], memory[seen], atol=1e-6)


def test_before_its_start_it_is_cross_entropy():
    criterion = SelfAdaptiveLoss(ROWS, K, start=3)
    index = torch.arange(ROWS)
    for step in range(4):
        logits, target = torch.randn(ROWS, K), index % K
        found = criterion(logits, target, index)
        assert torch.allclose(found, F.cross_entropy(logits, target)) == (step < 3)
