import pytest
import torch

from mgce_lab.images.image_settings import ImageSettings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("architecture", "vgg"),
        ("stem", "none"),
        ("l1_on", "first"),
        ("crop", 0),
        ("size", 0),
        ("padding", -1),
        ("milestones", (0,)),
        ("jitter", 1.0),
        ("validation_size", 1.0),
        ("momentum", -0.1),
        ("lr", 0.0),
        ("max_norm", float("nan")),
        ("l1", -1.0),
        ("initialization", "zeros"),
        ("standardization", "rows"),
        ("schedule", "linear"),
        ("rotation", -1.0),
        ("weight_decay", -1e-4),
        ("flip", "yes"),
        ("nesterov", "a"),
    ],
)
def test_bad_settings(name, value):
    with pytest.raises(ValueError, match=f"Expected `{name}` to be"):
        ImageSettings(**{name: value})


def test_momentum_of_nesterov_is_above_0():
    with pytest.raises(ValueError, match="Expected `momentum` to be above 0, with Nesterov's, but got 0.0."):
        ImageSettings(nesterov=True, momentum=0.0)


def test_the_cosine_begins_at_the_learning_rate_and_would_end_at_0():
    settings = ImageSettings(lr=0.1, epochs=10, schedule="cosine", milestones=(1,))
    rates = [settings.lr_at(epoch) for epoch in range(11)]
    parameter = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([parameter], 0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for rate in rates:
        assert rate == pytest.approx(schedule.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        schedule.step()
