import math

import numpy as np
import torch

from mgce_lab.paper import figure2


def test_figure2_is_theorem_1():
    h = np.linspace(0.01, 0.99, 50)
    for beta in (1.1, 1.4, 2.0):
        power = (beta - 1) / beta
        expected = h**power / (h**power + (1 - h) ** power)
        np.testing.assert_allclose(figure2.worst_case(torch.from_numpy(h), beta), expected, rtol=1e-12)
    np.testing.assert_allclose(figure2.worst_case(torch.from_numpy(h), math.inf), h, rtol=1e-12)
