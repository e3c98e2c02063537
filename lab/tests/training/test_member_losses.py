import math

import pytest
import torch

from mgce.functional import gce_loss, mgce_loss
from mgce.noise import symmetric
from mgce_lab.losses import LOSSES, robust_loss
from mgce_lab.training.member_losses import MemberLoss, MemberLosses

FUNCTIONS = {"mgce": mgce_loss, "gce": gce_loss}
TRIM = {"trim": 0.4, "num_classes": 4}
TRANSITION = symmetric(4, 0.3).tolist()


@pytest.mark.parametrize(
    "members",
    [
        [("mgce", 1.4)],
        [("mgce", 1.4), ("mgce", 1.4), ("mgce", 2.0)],
        [("gce", 1.4), ("gce", math.inf), ("mgce", 1.0), ("gce", 5.0), ("mgce", math.inf)],
    ],
)
def test_values_and_gradients_are_those_of_the_single_losses(members):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2 * len(members), 7, 4, generator=generator, dtype=torch.double)
    target = torch.randint(4, (2, 7), generator=generator)
    weight = torch.rand(2, 7, generator=generator, dtype=torch.double)
    kept = logits.clone()
    losses = MemberLosses([MemberLoss(*member) for member in members], logits.device)
    values, grads = losses(logits, target, weight)
    assert torch.equal(logits, kept) and not values.requires_grad
    for number, (value, grad) in enumerate(zip(values, grads, strict=True)):
        (family, beta), g = members[number // 2], number % 2
        leaf = logits[number].clone().requires_grad_()
        alone = (weight[g] * FUNCTIONS[family](leaf, target[g], reduction="none", beta=beta)).sum()
        torch.testing.assert_close(value, alone.detach())
        torch.testing.assert_close(grad, torch.autograd.grad(alone, leaf)[0])


def test_every_loss_that_has_a_name_is_a_member():
    told = {**TRIM, "transition": TRANSITION}
    betas = {name: 1.4 if "beta" in loss.hyperparameters else math.inf for name, loss in LOSSES.items()}
    members = [
        MemberLoss(name, betas[name], {given: told[given] for given in loss.told}) for name, loss in LOSSES.items()
    ]
    members += [MemberLoss("nce+rce", options={"weights": (1.0, 10.0)})] * 2
    members += [MemberLoss("nce+rce", options={"weights": (2.0, 10.0)})]
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(len(members), 6, 4, generator=generator, dtype=torch.double)
    target = torch.randint(4, (1, 6), generator=generator)
    values, grads = MemberLosses(members, logits.device)(logits, target, torch.full((1, 6), 1 / 6, dtype=torch.double))
    for member, row, value, grad in zip(members, logits, values, grads, strict=True):
        beta = {"beta": member.beta} if "beta" in LOSSES[member.family].hyperparameters else {}
        alone = robust_loss(member.family, **beta, **member.options)(leaf := row.clone().requires_grad_(), target[0])
        torch.testing.assert_close(value, alone.detach())
        torch.testing.assert_close(grad, torch.autograd.grad(alone, leaf)[0])


def test_a_wrong_member_is_refused():
    with pytest.raises(ValueError, match="Expected `family` to be one of 'ce', 'mae', 'gce'"):
        MemberLoss("cross", 1.0)
    with pytest.raises(ValueError, match="Expected `beta`"):
        MemberLoss("mgce", 0.5)
    with pytest.raises(ValueError, match="Expected `beta` to be inf, as 'sce' has no beta, but got 2"):
        MemberLoss("sce", 2.0)


def test_each_network_trims_by_its_own_losses():
    members = [MemberLoss("ce"), *[MemberLoss("mgce+trim", 1.4, TRIM)] * 2, MemberLoss("ce+trim", options=TRIM)]
    groups, generator = 2, torch.Generator().manual_seed(0)
    together = MemberLosses(members, torch.device("cpu"))
    alone = [[member.module() for _ in range(groups)] for member in members]
    for _ in range(4):
        logits = torch.randn(len(members) * groups, 10, 4, generator=generator, dtype=torch.double)
        target = torch.randint(4, (groups, 10), generator=generator)
        weight = torch.full((groups, 10), 0.3, dtype=torch.double)
        values, grads = together(logits, target, weight)
        for number, (value, grad) in enumerate(zip(values, grads, strict=True)):
            m, g = divmod(number, groups)
            leaf = logits[number].clone().requires_grad_()
            loss = 3 * alone[m][g](leaf, target[g])  # the weights of a network have the sum 3
            torch.testing.assert_close(value, loss.detach(), rtol=1e-6, atol=0)
            torch.testing.assert_close(grad, torch.autograd.grad(loss, leaf)[0], rtol=1e-6, atol=1e-12)
    # On validation rows nothing is left out or taken up.
    before = together(logits, target, weight, training=False)[0]
    torch.testing.assert_close(together(logits, target, weight, training=False)[0], before)
    torch.testing.assert_close(
        before[:2], 3 * torch.stack([call(x, y) for call, x, y in zip(alone[0], logits[:2], target, strict=True)])
    )
    whole = 3 * mgce_loss(logits[2], target[0], beta=1.4)
    torch.testing.assert_close(before[2], whole)


def test_a_trimmed_loss_goes_on_where_others_change():
    """Beside a member that gets a threshold a trimmed one is as it is alone."""
    trimmed, cpu = MemberLoss("ce+trim", options=TRIM), torch.device("cpu")
    first = MemberLosses([MemberLoss("mgce", 1.4), trimmed], cpu)
    then = MemberLosses([MemberLoss("mgce+cap", 1.4), trimmed], cpu, [first])
    alone, generator = MemberLosses([trimmed], cpu), torch.Generator().manual_seed(0)
    target, weight = torch.randint(4, (2, 20), generator=generator), torch.full((2, 20), 0.05)
    for losses in (first, first, then, then):
        logits = torch.randn(4, 20, 4, generator=generator)
        want = alone(logits[2:], target, weight)
        torch.testing.assert_close([part[2:] for part in losses(logits, target, weight)], list(want))


def test_rows_without_weight_are_not_taken_up():
    generator = torch.Generator().manual_seed(0)
    a, b = (MemberLosses([MemberLoss("ce+trim", options=TRIM)], torch.device("cpu")) for _ in range(2))
    target = torch.randint(4, (1, 20), generator=generator)
    weight = torch.where(torch.arange(20) < 10, 0.1, 0.0)[None]
    for _ in range(3):
        logits = torch.randn(1, 20, 4, generator=generator)
        other = torch.where(weight[..., None] > 0, logits, 9 * torch.randn(1, 20, 4, generator=generator))
        torch.testing.assert_close(a(logits, target, weight)[0], b(other, target, weight)[0])
    with pytest.raises(ValueError, match="Expected `num_classes` to be 3, the number of classes of `input`, but got 4"):
        MemberLosses([MemberLoss("ce+trim", options=TRIM)], logits.device)(logits[..., :3], target % 3, weight)
