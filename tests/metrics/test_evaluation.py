import math

import numpy as np
import pytest
import torch
from scipy.special import softmax

from mgce import ForwardCorrection, GCELoss, MGCELoss
from mgce.losses import LogitScale
from mgce.metrics.evaluation import both_outputs, evaluate, pool, rank_classes
from mgce.noise import symmetric
from mgce_lab.losses import LogitClip

MEASURES = ("accuracy", "ece_h", "sce_h", "ece_p", "sce_p")


def test_equal_logits_are_ranked_by_index():
    order, place = rank_classes(torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]]), torch.tensor([2, 0]))
    assert order.tolist() == [[1, 2, 0], [0, 1, 2]] and place.tolist() == [1, 0]


def test_evaluate_uses_the_link_of_the_loss():
    logits, target = torch.randn(50, 4, dtype=torch.float64) * 2, torch.randint(4, (50,))
    probs = softmax(logits.numpy(), axis=1)
    confidence, right = probs.max(1), probs.argmax(1) == target.numpy()
    bins = np.minimum((confidence * 15).astype(int), 14)
    ece = sum(abs(right[bins == b].sum() - confidence[bins == b].sum()) for b in range(15)) / 50
    for beta, link in ((math.inf, None), (1.4, GCELoss(beta=1.4).link), (1.0, GCELoss(beta=1.0).link)):
        assert abs(evaluate(logits, target, beta, link=link)["ece_h"] - ece) < 1e-12
    assert abs(evaluate(logits, target, 1.4)["ece_h"] - ece) > 1e-3


@pytest.mark.parametrize("around", [lambda loss: loss, lambda loss: LogitScale(LogitClip(loss, 1e-3), 0.5)])
def test_a_link_that_gives_p_is_not_taken_for_one_of_h(around):
    """As that of forward correction: labels drawn by p, which is calibrated then, and h too sure of itself."""
    logits = 3 * torch.randn(20_000, 3, dtype=torch.float64)
    loss = around(ForwardCorrection(MGCELoss(), symmetric(3, 0.2).double()))
    p = loss.link(logits)
    target = torch.multinomial(p, 1)[:, 0]
    outputs = both_outputs(logits, 1.4, loss.link)
    torch.testing.assert_close(outputs["p"], p)
    torch.testing.assert_close(outputs["h"], around(MGCELoss()).link(logits))
    found = evaluate(logits, target, 1.4, link=loss.link)
    assert found["ece_p"] < 0.02 < 0.05 < found["ece_h"]
    as_mgce = evaluate(logits, target, 1.4, link=around(MGCELoss()).link)
    assert {name: found[name] for name in MEASURES} == pytest.approx({name: as_mgce[name] for name in MEASURES})


def test_evaluate_predicts_by_the_logits_where_p_is_tied():
    logits = torch.tensor([[0.0, 0.9], [0.9, 0.0]])  # at beta = 1: h = (.05, .95), p = (1/2, 1/2)
    result = evaluate(logits, torch.tensor([1, 0]), 1.0)
    assert result["accuracy"] == 1
    assert abs(result["ece_p"] - 0.5) < 1e-12 and abs(result["ece_h"] - 0.05) < 1e-6


def test_pooled_reliability_weighs_bins_by_their_rows():
    a = {"count": [1, 0, 2], "confidence": [0.2, None, 0.9], "accuracy": [0.0, None, 1.0]}
    b = {"count": [3, 0, 0], "confidence": [0.4, None, None], "accuracy": [1.0, None, None]}
    confidence, accuracy, share = pool([a, b])
    np.testing.assert_allclose(confidence, [0.35, 0.9])
    np.testing.assert_allclose(accuracy, [0.75, 1.0])
    np.testing.assert_allclose(share, [4 / 6, 2 / 6])
