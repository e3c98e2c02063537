import math

import pytest
import torch

from mgce.functional import gce_loss, mgce_loss
from mgce.training.member_losses import MemberLoss, MemberLosses

FUNCTIONS = {"mgce": mgce_loss, "gce": gce_loss}


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


def test_a_wrong_member_is_refused():
    with pytest.raises(ValueError, match="Expected `family` to be one of 'mgce', 'gce'"):
        MemberLoss("ce", 1.0)
    with pytest.raises(ValueError, match="Expected `beta`"):
        MemberLoss("mgce", 0.5)
