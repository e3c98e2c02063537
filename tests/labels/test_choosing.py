"""Which of several candidates is chosen by noisy labels, and when one is shown to be better."""

import numpy as np
import pytest
import torch
from scipy.stats import binom

from mgce.labels.choosing import mcnemar, most_predicted, shown_better


def test_of_equal_shares_the_first_is_taken_and_patience_ends_the_search():
    asked = []

    def tried():
        for share, name in ((0.5, "a"), (0.8, "b"), (0.8, "c"), (0.7, "d"), (0.9, "e")):
            asked.append(name)
            yield share, name

    assert most_predicted(tried(), patience=2) == "b" and asked == ["a", "b", "c", "d"]
    assert most_predicted(tried()) == "e"


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_one_model_is_better_if_it_gains_more_rows_than_coins_would(kind):
    right, others = kind([True] * 20 + [False] * 3), kind([False] * 12 + [True] * 11)
    tail = binom.sf(11, 15, 0.5)  # 12 rows or more of 15
    assert mcnemar(12, 3) == pytest.approx(tail)
    assert shown_better(right, others, tail * 1.01) and not shown_better(right, others, tail * 0.99)
    assert not shown_better(others, right, 1.0) and mcnemar(0, 0) == 1.0
