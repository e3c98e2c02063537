import numpy as np
import torch

from mgce_lab.paper.published_mae import evaluate_published_mae, published_mae_probs


def test_published_mae_probs_of_known_rows():
    probs = published_mae_probs(torch.tensor([[3.0, 0.0, 0.0], [-3.0, -3.0, -3.0]], dtype=torch.float64))
    np.testing.assert_allclose(probs[0], [7 / 15, 4 / 15, 4 / 15], rtol=1e-12)
    np.testing.assert_allclose(probs[1], [1 / 3] * 3, rtol=1e-12)


def test_published_errors_of_a_right_and_confident_row():
    result = evaluate_published_mae(torch.tensor([[3.0, 0.0, 0.0]]), torch.tensor([0]))
    assert result["accuracy"] == 1
    assert abs(result["ece_h"] - 8 / 15) < 1e-6 and abs(result["ece_p"] - 2 / 3) < 1e-6
