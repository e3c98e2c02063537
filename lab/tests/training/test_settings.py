import pytest

from mgce_lab.training.settings import TrainingSettings


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        ({"optimizer": "lbfgs"}, ValueError, "Expected `optimizer` to be one of 'sgd', 'adam'"),
        ({"l1_on": "first"}, ValueError, "Expected `l1_on` to be one of 'last', 'all'"),
        ({"ties": "last"}, ValueError, "Expected `ties` to be one of 'first', 'loss'"),
        ({"hidden_layer_sizes": (3, 0)}, ValueError, "Expected `hidden_layer_sizes` to be an integer of at least 1"),
        ({"milestones": (2.5,)}, TypeError, "Expected `milestones`"),
        ({"epochs": 0}, ValueError, "Expected `epochs`"),
        ({"batch_size": 0}, ValueError, "Expected `batch_size`"),
        ({"n_iter_no_change": 0}, ValueError, "Expected `n_iter_no_change`"),
        ({"milestones": 3}, TypeError, "Expected `milestones` to be a sequence of integers, but got 3"),
        ({"lr": float("nan")}, ValueError, "Expected `lr` to be a finite number in \\(0, inf\\)"),
        ({"lr": float("inf")}, ValueError, "Expected `lr`"),
        ({"lr": "a"}, TypeError, "Expected `lr`"),
        ({"gamma": "a"}, TypeError, "Expected `gamma`"),
        ({"momentum": "a"}, TypeError, "Expected `momentum`"),
        ({"gamma": 0.0}, ValueError, "Expected `gamma`"),
        ({"max_norm": 0.0}, ValueError, "Expected `max_norm`"),
        ({"momentum": 1.0}, ValueError, "Expected `momentum` to be a float in \\[0, 1\\)"),
        ({"l1": -1.0}, ValueError, "Expected `l1`"),
    ],
)
def test_wrong_settings_are_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        TrainingSettings(**wrong)


def test_the_defaults_are_those_of_the_paper():
    settings = TrainingSettings()
    assert settings.hidden_layer_sizes == (1024,) and settings.epochs == 150 and settings.batch_size == 128
    assert (settings.optimizer, settings.lr, settings.momentum, settings.milestones) == ("sgd", 0.001, 0.9, ())
    assert (settings.l1, settings.max_norm) == (1e-5, 5.0)
