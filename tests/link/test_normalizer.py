import math

import pytest
import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

import oracle
from golden import GOLDEN
from grids import grid
from hard_rows import hard_rows
from mgce.functional import normalized_logits, normalizer, worst_case_probs

inf = math.inf
BETAS = [1.05, 1.4, 2.0, 5.0, 11.0, 100.0, inf]
ROW = torch.tensor([0.5, 0.0, 0.25, -1.0], dtype=torch.float64)


def random_logits(*shape, scale=1.0):
    return torch.randn(*shape, dtype=torch.float64) * scale


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case.name)
def test_golden_phi(case):
    logits = torch.tensor(case.logits, dtype=torch.float64)
    tolerance = 2e-14 if logits.abs().max() < 500 else 2.5e-13  # the spacing of floats at 1000
    assert abs(normalizer(logits, beta=case.beta).item() - case.phi) < tolerance
    as_float32 = normalizer(logits.float(), beta=case.beta) + logits.float().max()
    if torch.equal(logits.float().double(), logits):
        assert abs(as_float32.item() - (case.phi + max(case.logits))) < 2e-6 * max(1, abs(max(case.logits)) / 8)


@pytest.mark.parametrize("case", [c for c in GOLDEN if c.dphi_dbeta is not None], ids=lambda case: case.name)
def test_golden_slope_in_beta(case):
    beta = torch.tensor(float(case.beta), dtype=torch.float64, requires_grad=True)
    normalizer(torch.tensor(case.logits, dtype=torch.float64), beta=beta).backward()
    assert abs(beta.grad.item() - case.dphi_dbeta) < 1e-10 * max(1, 1 / case.beta)


def hessian_of(upper):
    h11, h12, h13, h22, h23, h33 = upper
    return torch.tensor([[h11, h12, h13, 0], [h12, h22, h23, 0], [h13, h23, h33, 0], [0, 0, 0, 0]], dtype=torch.float64)


@pytest.mark.parametrize(
    "beta, upper",
    [
        (1.4, (0.142662271854, -0.0890743688143, -0.0535879030396, 0.183945989282, -0.0948716204678, 0.148459523507)),
        (2.0, (0.200260038793, -0.102495295445, -0.0977647433476, 0.200260038793, -0.0977647433476, 0.195529486695)),
    ],
)
def test_golden_hessian_by_every_mode(beta, upper):
    def loss(f):
        return -normalizer(f, beta=beta)

    for second_derivative in (hessian(loss), jacrev(jacrev(loss)), jacfwd(jacfwd(loss)), jacrev(jacfwd(loss))):
        torch.testing.assert_close(second_derivative(ROW), hessian_of(upper), rtol=0, atol=2e-12)
    by_autograd = torch.autograd.functional.hessian(loss, ROW)
    torch.testing.assert_close(by_autograd, hessian_of(upper), rtol=0, atol=2e-12)


@pytest.mark.parametrize("beta", BETAS)
def test_third_derivative_equals_finite_differences_of_the_second(beta):
    f, step = random_logits(5, scale=0.3), 1e-5

    def phi(f):
        return normalizer(f, beta=beta)

    third = jacrev(hessian(phi))(f)
    for i, unit in enumerate(torch.eye(5, dtype=torch.float64)[:2]):  # the others are like these
        difference = (hessian(phi)(f + step * unit) - hessian(phi)(f - step * unit)) / (2 * step)
        torch.testing.assert_close(third[..., i], difference, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "beta", [1.18, 5.0, inf, *(pytest.param(beta, marks=pytest.mark.nightly) for beta in (1.4, 2.0, 100.0))]
)
def test_gradcheck_and_gradgradcheck(beta):
    logits = random_logits(2, 5, scale=0.7).requires_grad_()

    def phi(f):
        return normalizer(f, beta=beta)

    assert torch.autograd.gradcheck(phi, logits, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(phi, logits, check_fwd_over_rev=True, check_rev_over_rev=True)


def test_gradcheck_in_beta_of_each_row():
    logits = random_logits(3, 4, scale=0.7).requires_grad_()
    beta = torch.tensor([1.3, 4.0, 30.0], dtype=torch.float64, requires_grad=True)

    def phi(f, b):
        return normalizer(f, beta=b)

    assert torch.autograd.gradcheck(phi, (logits, beta), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(phi, (logits, beta), check_fwd_over_rev=True)


@pytest.mark.parametrize("beta", [1.0, *BETAS])
@pytest.mark.parametrize("k", [1, 2, 10, 1000])
def test_gradient_is_minus_the_worst_case_probabilities_on_hard_rows(beta, k):
    logits = hard_rows(k, beta, torch.float64).requires_grad_()
    (gradient,) = torch.autograd.grad(normalizer(logits, beta=beta).sum(), logits)
    torch.testing.assert_close(gradient, -worst_case_probs(logits.detach(), beta=beta), rtol=0, atol=1e-13)


@pytest.mark.parametrize("beta", [1.0, 1.4, inf])
def test_functorch_transforms_agree_with_autograd(beta):
    logits, direction = random_logits(5, 6), random_logits(5, 6)
    p = worst_case_probs(logits, beta=beta)

    def phi(f):
        return normalizer(f, beta=beta)

    torch.testing.assert_close(vmap(grad(phi))(logits), -p)
    torch.testing.assert_close(jacrev(phi)(logits[0]), -p[0])
    _, tangent = jvp(phi, (logits,), (direction,))
    torch.testing.assert_close(tangent, -(p * direction).sum(-1))


def test_vmap_over_beta():
    betas = torch.tensor([1.0, 1.4, 2.0, inf], dtype=torch.float64)
    together = vmap(lambda b: normalizer(ROW, beta=b))(betas)
    torch.testing.assert_close(together, torch.stack([normalizer(ROW, beta=b.item()) for b in betas]))


@pytest.mark.slow
@grid(
    "beta, backend",
    [1.4, torch.tensor([1.0, 1.4, 2.0, inf])],  # the loss is compiled with a number too
    ["aot_eager", "inductor"],
    keep=lambda beta, backend: isinstance(beta, torch.Tensor) and backend == "aot_eager",
)
def test_compile_fullgraph_value_and_gradient(beta, backend):
    def step(f, beta):
        return normalizer(f, beta=beta).sum()

    torch._dynamo.reset()
    logits = torch.randn(4, 6, requires_grad=True)
    eager = torch.autograd.grad(step(logits, beta), logits)[0]
    compiled = torch.autograd.grad(torch.compile(step, fullgraph=True, backend=backend)(logits, beta), logits)[0]
    torch.testing.assert_close(compiled, eager)


@pytest.mark.nightly
def test_compiled_vmap_of_grad():
    logits = torch.randn(4, 6)
    compiled = torch.compile(vmap(grad(lambda f: normalizer(f, beta=1.4))), fullgraph=True)
    torch.testing.assert_close(compiled(logits), -worst_case_probs(logits, beta=1.4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("beta", [1.0, 1.4, 11.0, inf])
def test_half_types_are_solved_in_float32(dtype, beta):
    logits = torch.randn(3, 1000).to(dtype)
    result = normalizer(logits, beta=beta)
    assert result.dtype == dtype
    torch.testing.assert_close(result, normalizer(logits.float(), beta=beta).to(dtype), rtol=0, atol=0)


def test_autocast_returns_float32():
    logits = torch.randn(3, 8, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = normalizer(logits, beta=1.4)
        cross_entropy = torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 2]))
    assert result.dtype == cross_entropy.dtype == torch.float32
    torch.testing.assert_close(result, normalizer(logits.float(), beta=1.4), rtol=0, atol=0)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_any_dim_is_the_last_dim_transposed(dim):
    logits = random_logits(3, 4, 5)
    last = logits.movedim(dim, -1)
    phi = normalizer(logits, beta=1.4, dim=dim)
    torch.testing.assert_close(phi, normalizer(last, beta=1.4, dim=-1), rtol=0, atol=0)
    scores = normalized_logits(logits, beta=1.4, dim=dim)
    torch.testing.assert_close(scores.movedim(dim, -1), normalized_logits(last, beta=1.4, dim=-1), rtol=0, atol=0)


@pytest.mark.parametrize("beta", [1.0, 1.4, 2.0, 11.0, inf])
def test_normalized_logits_are_the_logits_and_phi(beta):
    logits = random_logits(4, 6, scale=2.0)
    phi = torch.tensor([float(oracle.normalizer(row, beta)) for row in logits.tolist()], dtype=torch.float64)
    scores = normalized_logits(logits, beta=beta)
    torch.testing.assert_close(scores, logits + phi[:, None], rtol=0, atol=1e-13)
    if beta == inf:
        torch.testing.assert_close(scores, logits.log_softmax(1))


def test_bisection_is_as_near_as_it_is_told():
    """The paper stops at 1e-4."""
    logits = random_logits(50, 6)
    exact = normalizer(logits, beta=1.4)
    error = {tol: normalizer(logits, beta=1.4, method="bisection", tol=tol) - exact for tol in (1e-2, 1e-4, 1e-6)}
    for tol, off in error.items():
        assert tol / 100 < off.abs().max() <= tol
    assert torch.equal(normalizer(logits, beta=1.4, method="bisection") - exact, error[1e-4])


def test_bisection_has_the_same_derivative():
    logits = random_logits(4, 6).requires_grad_()
    phi = normalizer(logits, beta=1.4, method="bisection", tol=1e-12)
    (gradient,) = torch.autograd.grad(phi.sum(), logits)
    torch.testing.assert_close(gradient, -worst_case_probs(logits, beta=1.4))


def test_masked_class_has_no_gradient():
    logits = torch.tensor([0.5, -inf, 0.25, -1.0], dtype=torch.float64, requires_grad=True)
    for beta in (1.0, 1.4, 2.0, inf):
        (gradient,) = torch.autograd.grad(normalizer(logits, beta=beta), logits)
        assert gradient[1] == 0 and gradient.isfinite().all()


@pytest.mark.parametrize("value", [0.99, 0.0, -1.0, math.nan, -inf])
def test_beta_below_one_is_refused(value):
    with pytest.raises(ValueError, match=r"Expected `beta` to be a float in \[1, inf\], but got"):
        normalizer(ROW, beta=value)
    with pytest.raises(ValueError, match="Expected `beta` to be a tensor of values"):
        normalizer(ROW, beta=torch.tensor(value))


def test_arguments_of_the_wrong_kind_are_named():
    with pytest.raises(TypeError, match="Expected `beta`.*'1.4'"):
        normalizer(ROW, beta="1.4")
    with pytest.raises(TypeError, match="Expected `beta`.*torch.int64"):
        normalizer(ROW, beta=torch.tensor(2))
    with pytest.raises(TypeError, match="Expected `logits` to be a torch.Tensor, but got 'list'"):
        normalizer([0.5, 0.0], beta=1.4)
    with pytest.raises(RuntimeError, match="Expected `logits` to be a floating-point tensor"):
        normalizer(torch.tensor([1, 2]), beta=1.4)
    with pytest.raises(RuntimeError, match="at least one class"):
        normalizer(torch.zeros(3, 0), beta=1.4)
    with pytest.raises(IndexError, match="Expected `dim`"):
        normalizer(ROW, beta=1.4, dim=1)
    with pytest.raises(ValueError, match="Expected `method`"):
        normalizer(ROW, beta=1.4, method="halley")
    with pytest.raises(ValueError, match="Expected `beta` to be of a shape that broadcasts"):
        normalizer(ROW, beta=torch.tensor([1.4, 2.0]))


def test_empty_batch_gives_empty_result():
    assert normalizer(torch.zeros(0, 3), beta=1.4).shape == (0,)
