"""The identities of MGCE as properties of any logits, any beta."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mgce.functional import alpha_loss, mgce_loss, minimax_probs, normalizer, worst_case_probs
from mgce.numerics import implicit

betas = st.one_of(st.sampled_from([1.0, 1.4, 2.0, 11.0, math.inf]), st.floats(1, 1e6))
logit = st.floats(-30, 30).map(lambda v: round(v, 6))
rows = st.lists(logit, min_size=1, max_size=12).map(lambda v: torch.tensor(v, dtype=torch.float64))
# Two rows of one length, and a class.
pairs = st.integers(1, 8).flatmap(
    lambda k: st.tuples(
        st.lists(logit, min_size=k, max_size=k), st.lists(logit, min_size=k, max_size=k), st.integers(0, k - 1)
    )
)


def loss(f, y, beta):
    return mgce_loss(f, torch.tensor(y), beta=beta).item()


@given(rows, betas)
def test_probabilities_sum_to_one(f, beta):
    assert abs(minimax_probs(f, beta=beta).sum() - 1) < 1e-14
    assert abs(worst_case_probs(f, beta=beta).sum() - 1) < 1e-14


@given(rows, betas, st.floats(-100, 100))
def test_shift_equivariance(f, beta, c):
    shifted = normalizer(f + c, beta=beta)
    assert abs(shifted - (normalizer(f, beta=beta) - c)) < 1e-13 * max(1, abs(c), f.abs().max())


@given(rows, betas, st.randoms())
def test_permutation_equivariance(f, beta, random):
    order = list(range(len(f)))
    random.shuffle(order)
    assert abs(normalizer(f[order], beta=beta) - normalizer(f, beta=beta)) < 1e-13 * max(1, f.abs().max())
    assert (minimax_probs(f[order], beta=beta) - minimax_probs(f, beta=beta)[order]).abs().max() < 1e-13


@given(rows, betas, betas)
def test_phi_decreases_in_beta_no_faster_than_one_for_one(f, b1, b2):
    small, large = sorted((b1, b2))
    difference = (normalizer(f, beta=small) - normalizer(f, beta=large)).item()
    assert -2e-13 <= difference
    if math.isfinite(large):
        assert difference <= large - small + 2e-13


@given(rows, betas)
def test_phi_lies_between_its_limits(f, beta):
    phi = normalizer(f, beta=beta)
    assert -torch.logsumexp(f, -1) - 2e-13 <= phi <= normalizer(f, beta=1) + 2e-13


@given(pairs, betas)
def test_loss_is_nonnegative_and_below_cross_entropy(pair, beta):
    f, _, y = pair
    f = torch.tensor(f, dtype=torch.float64)
    value = loss(f, y, beta)
    assert 0 <= value <= torch.nn.functional.cross_entropy(f, torch.tensor(y)).item() + 2e-13


@given(pairs, st.floats(1, 20))
def test_loss_vanishes_exactly_beyond_the_margin(pair, beta):
    f, _, y = pair
    f = torch.tensor(f, dtype=torch.float64)
    others = torch.cat([f[:y], f[y + 1 :]])
    margin = (f[y] - others.max()).item() if len(others) else math.inf
    if margin >= beta + 1e-9:
        assert loss(f, y, beta) == 0
    elif margin < 0.9 * beta:
        assert loss(f, y, beta) > 0


@given(pairs, betas, st.floats(0, 1))
def test_loss_is_convex_along_segments(pair, beta, s):
    f, g, y = pair
    f, g = torch.tensor(f, dtype=torch.float64), torch.tensor(g, dtype=torch.float64)
    between = loss(s * f + (1 - s) * g, y, beta)
    assert between <= s * loss(f, y, beta) + (1 - s) * loss(g, y, beta) + 1e-12


@given(pairs, st.floats(1, 1e4))
def test_alpha_loss_of_h_is_the_loss_cut_at_beta(pair, beta):
    f, _, y = pair
    f = torch.tensor(f, dtype=torch.float64)
    clipped = min(beta, loss(f, y, beta))
    assert abs(alpha_loss(minimax_probs(f, beta=beta), torch.tensor(y), beta=beta).item() - clipped) < 1e-10 * beta


@given(pairs, st.floats(1, 100))
def test_mae_is_below_the_alpha_loss(pair, beta):
    f, _, y = pair
    f, y = torch.tensor(f, dtype=torch.float64), torch.tensor(y)
    h = minimax_probs(f, beta=beta)
    assert 1 - h[y] <= alpha_loss(h, y, beta=beta) + 1e-12


@given(pairs, betas)
def test_phi_is_lipschitz_in_the_largest_change(pair, beta):
    f, g, _ = (torch.tensor(v, dtype=torch.float64) for v in pair)
    change = (normalizer(f, beta=beta) - normalizer(g, beta=beta)).abs()
    assert change <= (f - g).abs().max() + 1e-12


@given(rows, betas)
def test_order_is_kept(f, beta):
    order = f.argsort()
    assert (minimax_probs(f, beta=beta)[order].diff() >= -1e-15).all()
    assert (worst_case_probs(f, beta=beta)[order].diff() >= -1e-15).all()


@given(rows, st.floats(1.1, 50))
def test_p_is_below_h_just_where_h_exceeds_its_norm(f, beta):
    """p_y < h_y iff h_y > A^-beta, and A^-beta >= 1/k: not the paper's h_y > 1/k."""
    h, p = minimax_probs(f, beta=beta), worst_case_probs(f, beta=beta)
    threshold = (h ** (1 - 1 / beta)).sum() ** -beta
    assert threshold >= 1 / len(f) - 1e-12
    clear = (h > 0) & ((h / threshold - 1).abs() > 1e-6)
    assert ((p < h) == (h > threshold))[clear].all()


@given(st.integers(1, 50), betas)
def test_equal_logits_give_uniform_probabilities(k, beta):
    f = torch.full((k,), 0.3, dtype=torch.float64)
    assert (minimax_probs(f, beta=beta) - 1 / k).abs().max() < 1e-15
    expected_loss = math.log(k) if math.isinf(beta) else -beta * math.expm1(-math.log(k) / beta)
    assert abs(loss(f, 0, beta) - expected_loss) < 1e-14


@given(rows, st.sampled_from([1e3, 1e4]))
@settings(max_examples=30)
def test_expansion_at_large_beta(f, beta):
    q = torch.softmax(f, -1)
    second = (q * torch.log_softmax(f, -1) ** 2).sum() / (2 * beta)
    remainder = normalizer(f, beta=beta) + torch.logsumexp(f, -1) - second
    assert abs(remainder) <= 60.0**3 / beta**2


@pytest.mark.parametrize("beta", [1.0625, 1.4, 2.0])
@pytest.mark.parametrize("output", [implicit.worst_case, implicit.minimax])
def test_a_class_off_the_support_in_its_upper_half_changes_nothing(output, beta):
    """With so many leading classes t is below -beta / 2, and classes near them have no probability."""
    leading = torch.zeros(30, dtype=torch.float64)
    rows = torch.cat([leading, torch.tensor([-0.45 * beta], dtype=torch.float64)])

    def jacobian(row):
        return torch.autograd.functional.jacobian(lambda row: output(*implicit.solve(row, beta, -1)), row)

    full = jacobian(rows)
    assert implicit.solve(rows, beta, -1)[1] < -0.55 * beta
    torch.testing.assert_close(full[:30, :30], jacobian(leading), rtol=1e-12, atol=1e-15)
    assert (full[30] == 0).all() and (full[:, 30] == 0).all()
