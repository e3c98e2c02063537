import math

import entmax
import pytest
import torch

import oracle
from golden import GOLDEN
from grids import grid
from hard_rows import hard_rows
from mgce.functional import (
    minimax_probs,
    minimax_to_worst_case,
    normalizer,
    worst_case_probs,
    worst_case_to_minimax,
)
from mgce.numerics import root

inf = math.inf
ROW = torch.tensor([0.5, 0.0, 0.25, -1.0], dtype=torch.float64)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case.name)
def test_golden_probabilities(case):
    logits = torch.tensor(case.logits, dtype=torch.float64)
    h, p = minimax_probs(logits, beta=case.beta), worst_case_probs(logits, beta=case.beta)
    # The goldens are rounded to 12 digits.
    assert (h[: len(case.h)] - torch.tensor(case.h, dtype=torch.float64)).abs().max() < 1.1e-12
    assert (p[: len(case.p)] - torch.tensor(case.p, dtype=torch.float64)).abs().max() < 1.1e-12
    if case.support:
        assert (h > 0).sum() == (p > 0).sum() == case.support


@pytest.mark.parametrize("beta", [1.0, 1.02, 1.05, 1.18, 1.4, 2.0, 5.0, 11.0, 100.0, 1e4, 1e9, inf])
def test_probabilities_equal_mpmath(beta):
    logits = torch.randn(4, 6, dtype=torch.float64) * torch.tensor([[0.01], [0.3], [1.0], [10.0]])
    h, p = minimax_probs(logits, beta=beta), worst_case_probs(logits, beta=beta)
    for i, row in enumerate(logits.tolist()):
        true_h, true_p = oracle.probabilities(row, beta)
        assert max(abs(float(a - b)) for a, b in zip(true_h, h[i].tolist(), strict=True)) < 1e-14
        if beta >= 1.18:
            tolerance = 1e-13 if beta >= 1.4 else 1e-11
            assert max(abs(float(a - b)) for a, b in zip(true_p, p[i].tolist(), strict=True)) < tolerance


@pytest.mark.parametrize("beta", [1.0, 1.05, 1.4, 2.0, 5.0, 11.0])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_h_is_entmax(beta, scale):
    logits = torch.randn(50, 13, dtype=torch.float64) * scale
    other = entmax.entmax_bisect(logits, alpha=1 + 1 / beta, dim=-1, n_iter=100)
    torch.testing.assert_close(minimax_probs(logits, beta=beta), other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("beta", [1.4, 2.0, 5.0, 11.0])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_p_is_normmax(beta, scale):
    logits = torch.randn(50, 13, dtype=torch.float64) * scale
    other = entmax.normmax_bisect(logits / beta, alpha=beta / (beta - 1), dim=-1, n_iter=100)
    torch.testing.assert_close(worst_case_probs(logits, beta=beta), other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 10, 1000, pytest.param(50_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("beta", [1.0, 1.02, 1.18, 1.4, 2.0, 11.0, 1e6, inf])
def test_float32_is_near_float64(beta, k):
    rows = 60 if k < 50_000 else 6
    logits = torch.cat([torch.randn(rows, k) * scale for scale in (0.01, 1.0, 10.0, 100.0)])
    h, p = minimax_probs(logits, beta=beta), worst_case_probs(logits, beta=beta)
    assert (h.double() - minimax_probs(logits.double(), beta=beta)).abs().max() < 5e-7
    if beta >= 1.4:  # below, p has an infinite slope at the edge of the support
        tolerance = 5e-7 if beta >= 2 else 2e-5
        assert (p.double() - worst_case_probs(logits.double(), beta=beta)).abs().max() < tolerance


@pytest.mark.parametrize("k", [1, 2, 10, 1000, pytest.param(50_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("beta", [1.0, 1.02, 1.18, 1.4, 2.0, 11.0, 1e6])
def test_float32_on_hard_rows_is_as_near_as_their_condition_allows(beta, k):
    """A change of eps in x + t moves h by up to eps times the slope of the norm, k^(1/beta) at most.

    x, t and x + t are each rounded, by half an eps where they are near 1: less than 2 eps together.
    """
    logits = hard_rows(k, beta, torch.float32)
    h, p = minimax_probs(logits, beta=beta), worst_case_probs(logits, beta=beta)
    exact = logits.double() - logits.double().amax(-1, keepdim=True)
    eps = torch.finfo(torch.float32).eps
    # The slope rises to the right of the root, of which t may lie 8 eps.
    _, slope = root.norm_excess(exact, root.newton(exact, beta) + 8 * eps, beta)
    error = (h.double() - minimax_probs(logits.double(), beta=beta)).abs().amax(-1)
    assert (error <= 2 * eps * slope.clamp(min=2)).all()
    for probs in (h, p):
        assert (probs >= 0).all()
        torch.testing.assert_close(
            probs.double().sum(-1), torch.ones(len(probs), dtype=torch.float64), rtol=0, atol=2e-6
        )


@pytest.mark.parametrize("function", [minimax_probs, worst_case_probs])
@pytest.mark.parametrize("beta", [1.4, 2.0, 11.0, inf])
def test_gradcheck(function, beta):
    logits = (torch.randn(2, 4, dtype=torch.float64) * 0.5).requires_grad_()

    def probs(f):
        return function(f, beta=beta)

    assert torch.autograd.gradcheck(probs, logits, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(probs, logits)


@pytest.mark.parametrize(
    "beta, upper",
    [
        (1.4, (0.508357223254, -0.228316238581, -0.280040984673, 0.427892570778, -0.199576332197, 0.47961731687)),
        (2.0, (0.41133960245, -0.180253745547, -0.231085856903, 0.328006269116, -0.147752523569, 0.378838380472)),
    ],
)
def test_golden_jacobian_of_h(beta, upper):
    jacobian = torch.func.jacrev(lambda f: minimax_probs(f, beta=beta))(ROW)
    golden = torch.zeros(4, 4, dtype=torch.float64)
    golden[:3, :3][tuple(torch.triu_indices(3, 3))] = torch.tensor(upper, dtype=torch.float64)
    torch.testing.assert_close(jacobian, golden + golden.T - golden.diag().diag(), rtol=0, atol=2e-12)


def test_golden_derivatives_in_beta():
    beta = torch.tensor(1.4, dtype=torch.float64)
    dh = torch.func.jacfwd(lambda b: minimax_probs(ROW, beta=b))(beta)
    dp = torch.func.jacfwd(lambda b: worst_case_probs(ROW, beta=b))(beta)
    expected_dh = torch.tensor([-0.0994339252324, 0.105059181951, -0.00562525671834, 0], dtype=torch.float64)
    expected_dp = torch.tensor([0.0632603960224, -0.0542259791312, -0.00903441689123, 0], dtype=torch.float64)
    torch.testing.assert_close(dh, expected_dh, rtol=0, atol=2e-12)
    torch.testing.assert_close(dp, expected_dp, rtol=0, atol=2e-12)


@pytest.mark.parametrize("beta", [1.05, 1.4, 2.0, 5.0, 11.0, inf])
def test_theorem_1_maps_are_inverse_and_join_the_outputs(beta):
    logits = torch.randn(20, 7, dtype=torch.float64) * 0.3
    h, p = minimax_probs(logits, beta=beta), worst_case_probs(logits, beta=beta)
    torch.testing.assert_close(minimax_to_worst_case(h, beta=beta), p, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(worst_case_to_minimax(p, beta=beta), h, rtol=1e-9, atol=1e-12)


def test_at_beta_one_p_is_uniform_on_the_support_only():
    h = torch.tensor([0.7, 0.3, 0.0, 0.0])
    torch.testing.assert_close(minimax_to_worst_case(h, beta=1), torch.tensor([0.5, 0.5, 0.0, 0.0]))
    logits = torch.tensor([3.0, 0.0, 0.0])  # h = (1, 0, 0), not (.467, .267, .267)
    torch.testing.assert_close(minimax_probs(logits, beta=1), torch.tensor([1.0, 0.0, 0.0]))
    torch.testing.assert_close(worst_case_probs(logits, beta=1), torch.tensor([1.0, 0.0, 0.0]))


def test_at_beta_one_p_does_not_determine_h():
    with pytest.raises(ValueError, match="Expected `beta` to be greater than 1"):
        worst_case_to_minimax(torch.tensor([0.5, 0.5]), beta=1.0)


@pytest.mark.parametrize("function", [minimax_to_worst_case, worst_case_to_minimax])
def test_maps_take_one_beta_for_each_row_along_any_dim(function):
    probs, beta = torch.randn(3, 4, dtype=torch.float64).softmax(-1), torch.tensor([1.4, 5.0, inf], dtype=torch.float64)
    by_row = torch.stack([function(row, beta=each.item()) for row, each in zip(probs, beta, strict=True)])
    torch.testing.assert_close(function(probs, beta=beta), by_row, rtol=0, atol=1e-15)
    torch.testing.assert_close(function(probs.T, beta=beta, dim=0).T, by_row, rtol=0, atol=1e-15)


def test_where_a_beta_of_one_cannot_be_read_its_row_is_nan():
    probs, beta = torch.rand(2, 3).softmax(-1), torch.tensor([1.0, 1.4])
    with pytest.raises(ValueError, match="greater than 1"):
        worst_case_to_minimax(probs, beta=beta)
    mapped = torch.func.vmap(lambda p, b: worst_case_to_minimax(p, beta=b))(probs, beta)
    assert mapped.isnan().all(-1).tolist() == [True, False]
    torch.testing.assert_close(mapped[1], worst_case_to_minimax(probs[1], beta=1.4))


def test_maps_keep_probabilities_that_a_power_would_underflow():
    p = torch.tensor([1e-30, 3e-30, 0.0], dtype=torch.float64) / 4e-30
    assert worst_case_to_minimax(p, beta=1.01).sum() == 1
    many = torch.full((10_000,), 1e-4)
    torch.testing.assert_close(worst_case_to_minimax(many, beta=1.05), many)


def test_p_below_h_is_not_h_above_one_over_k():
    """Counterexample to the paper's remark: h = (.6, .35, .05), beta = 2."""
    p = minimax_to_worst_case(torch.tensor([0.6, 0.35, 0.05]), beta=2)
    assert p[1] > 0.35 > 1 / 3


@pytest.mark.parametrize("function", [minimax_probs, worst_case_probs])
def test_any_dim_half_and_masks(function):
    logits = torch.randn(2, 5, 3)
    for dim in (0, 1, 2, -1):
        last = function(logits.movedim(dim, -1), beta=1.4, dim=-1).movedim(-1, dim)
        torch.testing.assert_close(function(logits, beta=1.4, dim=dim), last, rtol=0, atol=0)
    half = function(logits.half(), beta=1.4, dim=1)
    assert half.dtype == torch.float16
    torch.testing.assert_close(half, function(logits.half().float(), beta=1.4, dim=1).half(), rtol=0, atol=0)
    masked = logits.clone()
    masked[:, 2] = -inf
    kept = [0, 1, 3, 4]
    torch.testing.assert_close(function(masked, beta=1.4, dim=1)[:, kept], function(logits[:, kept], beta=1.4, dim=1))
    assert (function(masked, beta=1.4, dim=1)[:, 2] == 0).all()


@pytest.mark.parametrize("function", [minimax_probs, worst_case_probs])
@pytest.mark.parametrize("beta", [1.4, inf])
def test_of_contiguous_logits_the_result_is_contiguous(function, beta):
    images = torch.randn(2, 5, 3, 4)
    for dim in (0, 1, -1):
        assert function(images, beta=beta, dim=dim).stride() == images.softmax(dim).stride()
    assert function(images, beta=beta, dim=1).view(2, -1).shape == (2, 60)


def test_one_beta_for_each_row():
    logits = torch.randn(4, 6)
    betas = torch.tensor([1.0, 1.4, 5.0, inf])
    for function in (minimax_probs, worst_case_probs):
        together = function(logits, beta=betas)
        alone = torch.stack([function(row, beta=beta.item()) for row, beta in zip(logits, betas, strict=True)])
        torch.testing.assert_close(together, alone, rtol=0, atol=3e-7)


def test_nan_row_stays_alone():
    logits = torch.tensor([[math.nan, 0.0], [0.5, 0.0]])
    for function in (minimax_probs, worst_case_probs):
        probs = function(logits, beta=1.4)
        assert probs[0].isnan().all() and probs[1].isfinite().all()


def test_conjugate_of_the_norm_entropy():
    """-phi(f) = p . f + beta (1 - ||p||_alpha), the largest value of that over the simplex."""
    logits = torch.randn(30, 6, dtype=torch.float64)
    for beta in (1.05, 1.4, 2.0, 11.0):
        alpha = beta / (beta - 1)
        p = worst_case_probs(logits, beta=beta)
        value = (p * logits).sum(-1) + beta * (1 - torch.linalg.vector_norm(p, alpha, dim=-1))
        torch.testing.assert_close(value, -normalizer(logits, beta=beta), rtol=0, atol=1e-12)
        q = torch.distributions.Dirichlet(torch.ones(6, dtype=torch.float64)).sample((30,))
        other = (q * logits).sum(-1) + beta * (1 - torch.linalg.vector_norm(q, alpha, dim=-1))
        assert (other <= value + 1e-12).all()


@pytest.mark.slow
@grid(
    "backend, function",
    ["kernel", "plain"],
    [minimax_probs, worst_case_probs],
    keep=lambda backend, function: (backend, function) == ("kernel", minimax_probs),
    indirect=["backend"],
)
def test_export_with_dynamic_batch(function):
    class Link(torch.nn.Module):
        def forward(self, logits):
            return function(logits, beta=1.4)

    exported = torch.export.export(Link(), (torch.randn(4, 6),), dynamic_shapes=({0: torch.export.Dim("n")},))
    other_size = torch.randn(9, 6)
    torch.testing.assert_close(exported.module()(other_size), function(other_size, beta=1.4))
