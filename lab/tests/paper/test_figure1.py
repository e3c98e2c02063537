import math

import numpy as np
import torch

from mgce_lab.paper import figure1


def test_figure1_is_the_loss():
    h = torch.linspace(0.01, 1, 50, dtype=torch.float64)
    for beta in (1.0, 1.1, 1.4, 2.0):
        np.testing.assert_allclose(figure1.losses(h, beta), beta * (1 - h.numpy() ** (1 / beta)), atol=1e-13)
    np.testing.assert_allclose(figure1.losses(h, math.inf), -np.log(h.numpy()), atol=1e-13)
