import entmax
import pytest
import torch

from hard_rows import hard_rows
from mgce import functional
from mgce.numerics import implicit, root


@pytest.mark.parametrize("k", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize("beta, solve", [(1.0, implicit.beta_one), (2.0, implicit.beta_two)])
def test_sorting_and_iterating_agree(k, beta, solve):
    x = hard_rows(k, beta, torch.float64)
    x = x - x.amax(-1, keepdim=True)
    # The sum of squares about the mean is a difference of two sums of k terms, each off by up to k eps of k.
    floor = 2e-14 if beta == 1 else 2.0**-52 * max(k, 4) ** 2
    torch.testing.assert_close(solve(x), root.newton(x, beta), rtol=0, atol=floor)
    by_method = functional.normalizer(x, beta=beta, method="exact")
    torch.testing.assert_close(by_method, root.newton(x, beta), rtol=0, atol=2e-14)


def test_exact_links_are_sparsemax_and_entmax15():
    logits = torch.randn(64, 11, dtype=torch.float64) * 2
    shift = logits.amax(-1, keepdim=True)
    sparse = (logits - shift + implicit.beta_one(logits - shift)[:, None] + 1).clamp(min=0)
    torch.testing.assert_close(sparse, entmax.sparsemax(logits, dim=-1))
    dense = ((logits - shift + implicit.beta_two(logits - shift)[:, None]) / 2 + 1).clamp(min=0) ** 2
    torch.testing.assert_close(dense, entmax.entmax15(logits, dim=-1))


def test_normalizer_by_the_exact_method():
    logits = torch.tensor([[0.5, 0.0, 0.25, -1.0]], dtype=torch.float64, requires_grad=True)
    for beta in (1.0, 2.0):
        exactly = functional.normalizer(logits, beta=beta, method="exact")
        torch.testing.assert_close(exactly, functional.normalizer(logits, beta=beta))
        (gradient,) = torch.autograd.grad(exactly.sum(), logits)
        torch.testing.assert_close(gradient, -functional.worst_case_probs(logits, beta=beta))


def test_exact_says_for_which_beta():
    with pytest.raises(ValueError, match=r"Expected `beta` to be 1 or 2 for method 'exact', but got 1\.4"):
        functional.normalizer(torch.zeros(3), beta=1.4, method="exact")
