import pytest

from mgce.training.image_settings import ImageSettings


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
    ],
)
def test_bad_settings(name, value):
    with pytest.raises(ValueError, match=f"Expected `{name}` to be"):
        ImageSettings(**{name: value})
