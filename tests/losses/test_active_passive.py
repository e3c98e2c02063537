import mpmath
import pytest
import torch

from contracts.loss_contract import K
from contracts.robust_loss_contract import RobustLossContract, softmax
from mgce.functional import agce_loss, gce_loss, nce_loss
from mgce.losses import AGCELoss, NCELoss


class TestNCE(RobustLossContract):
    named = "nce"
    most = 1.0
    loss = staticmethod(nce_loss)

    @staticmethod
    def formula(logits, y):
        logs = [mpmath.log(p) for p in softmax(logits)]
        return logs[y] / mpmath.fsum(logs)


class AGCE(RobustLossContract):
    @classmethod
    def loss(cls, input, target, **keywords):
        return agce_loss(input, target, a=cls.a, q=cls.q, **keywords)

    @classmethod
    def formula(cls, logits, y):
        a, q = mpmath.mpf(cls.a), mpmath.mpf(cls.q)
        return ((a + 1) ** q - (a + softmax(logits)[y]) ** q) / q


class TestAGCE(AGCE):
    named = "agce"
    a, q = 0.6, 0.6
    most = (1.6**0.6 - 0.6**0.6) / 0.6


class TestAGCEOfManyClasses(AGCE):
    a, q = 1.8, 3.0
    most = (2.8**3 - 1.8**3) / 3


class TestAGCENearGCE(AGCE):
    a, q = 1e-5, 0.5
    most = ((1 + 1e-5) ** 0.5 - 1e-5**0.5) / 0.5


@pytest.mark.parametrize("a", [0.999, 1.0, 10.0, 1e5, 1e7, 1e16, 1e30])
@pytest.mark.parametrize("q", [1e-30, 0.2, 1.0, 1.2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_a_and_q(dtype, q, a):
    logits = torch.tensor([[0.0, v] for v in (-9.0, -3.0, -0.1, 0.4, 1.7, 9.0, 80.0)], dtype=dtype)
    values = agce_loss(logits, torch.zeros(7, dtype=torch.int64), a=a, q=q, reduction="none")
    with mpmath.workdps(200):
        a, q = mpmath.mpf(a), mpmath.mpf(q)
        ps = [1 / (1 + mpmath.exp(mpmath.mpf(row[1].item()))) for row in logits]
        want = torch.tensor([float(((a + 1) ** q - (a + p) ** q) / q) for p in ps], dtype=torch.float64)
        # What log_softmax loses at p = 1, and what is lost below the smallest number of the type.
        lost = float((a + 1) ** (q - 1)) * torch.finfo(dtype).eps + float((a + 1) ** q / q) * torch.finfo(dtype).tiny
    torch.testing.assert_close(values.double(), want, rtol=20 * torch.finfo(dtype).eps, atol=lost)


def test_at_q_1_agce_is_mae():
    logits, target = torch.randn(9, K, dtype=torch.float64), torch.randint(K, (9,))
    torch.testing.assert_close(agce_loss(logits, target, a=3.0, q=1), gce_loss(logits, target, beta=1.0))


def test_with_a_tiny_a_it_is_gce():
    logits, target = 20 * torch.randn(99, K, dtype=torch.float64), torch.randint(K, (99,))
    torch.testing.assert_close(agce_loss(logits, target, a=1e-30, q=0.7), gce_loss(logits, target, beta=1 / 0.7))


@pytest.mark.parametrize(
    "make, error, match",
    [
        (lambda: AGCELoss(a=0), ValueError, r"Expected `a` to be a finite number in \[1e-30, inf\), but got 0."),
        (lambda: AGCELoss(q=-1), ValueError, "Expected `q`"),
        (lambda: AGCELoss(q="1"), TypeError, "Expected `q`"),
        (lambda: AGCELoss(q=2000.0), ValueError, r"Expected `q` to be such that \(a \+ 1\)\^q is at most 1e38, with a"),
        (lambda: AGCELoss(a=1e30, q=2), ValueError, r"Expected `q` to be such that"),
        (lambda: AGCELoss(c=1), TypeError, "unexpected keyword argument 'c'"),
    ],
)
def test_bad_hyperparameters(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_a_dimension_is_an_integer():
    for dim in (1.5, "a", True):
        with pytest.raises(TypeError, match="Expected `dim` to be an integer or None, but got"):
            NCELoss(dim=dim)
