"""SoftBootstrapLoss against scikit-learn's mixture and NumPy."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import norm
from torch.nn import functional as F

from losses.ddp_worker import ROWS, K
from mgce import SoftBootstrapLoss
from mgce.losses.early_learning import _of_smaller


def test_weights_are_posteriors_of_two_normal_distributions():
    generator = np.random.default_rng(0)
    losses = np.concatenate([generator.normal(0.5, 0.1, 700), generator.normal(3, 0.4, 300)]).clip(0).astype("f4")
    found = _of_smaller(losses)
    small, large = 0.7 * norm.pdf(losses, 0.5, 0.1), 0.3 * norm.pdf(losses, 3, 0.4)
    # The mixture is estimated, and its variances are widened a little.
    np.testing.assert_allclose(found, small / (small + large), atol=0.15)
    assert np.mean(np.abs(found - small / (small + large))) < 0.01


def test_losses_that_are_all_equal_or_infinite_are_no_error():
    assert (_of_smaller(np.full(5, 0.3, "f4")) == 1).all()
    assert (_of_smaller(np.array([0.3], "f4")) == 1).all()
    assert _of_smaller(np.array([0.1, 0.2, 0.1, np.inf], "f4"))[3] < 0.01


@pytest.mark.parametrize("start", [1, 2])
def test_targets_are_mixed_after_its_start(start):
    criterion = SoftBootstrapLoss(ROWS, K, start=start)
    index, target = torch.arange(ROWS), torch.arange(ROWS) % K
    generator = np.random.default_rng(1)
    for epoch in range(4):
        right = criterion.right.numpy().copy()
        logits = 4 * generator.normal(size=(ROWS, K))
        found = criterion(torch.from_numpy(logits), target, index)
        label = np.eye(K)[target] * right[:, None] + (1 - right[:, None]) * softmax(logits, 1)
        np.testing.assert_allclose(found, -(label * log_softmax(logits, 1)).sum(1).mean(), rtol=1e-6)
        assert (right == 1).all() == (epoch < start)
        own = F.cross_entropy(torch.from_numpy(logits), target, reduction="none")
        torch.testing.assert_close(criterion.losses, own.float())
