"""The choice of a recipe by trainings whose predictions are known, and its interval by repeated draws."""

import weakref

import pytest
import torch
from torch import nn

from mgce import ELRLoss, ModelKeeper
from mgce.loop.recipes import RECIPES, choose_recipe, paired_interval
from mgce.losses.indexed import AcceptsIndex

N = 200
RIGHT = torch.randint(2, (N,), generator=torch.Generator().manual_seed(0))


class Recalled(nn.Module):
    """A network that predicts the right label of a row, unless the row is among the first `wrong`."""

    def __init__(self, wrong):
        super().__init__()
        self.wrong = nn.Parameter(torch.tensor(float(wrong)))

    def forward(self, row):
        return torch.nn.functional.one_hot(RIGHT[row] ^ (row < self.wrong), 2).float()


def recipes(**wrong):
    """Return recipes whose networks err on as many rows as each epoch of `wrong` says."""
    return {name: lambda rows, classes, one=one: Told(one) for name, one in wrong.items()}


class Told(nn.CrossEntropyLoss):
    def __init__(self, wrong):
        super().__init__()
        self.of_epochs = wrong


def train(criterion):
    of_epochs = criterion.loss.of_epochs
    network = Recalled(of_epochs[0])
    keeper = ModelKeeper(network, criterion)
    for wrong in of_epochs:
        with torch.no_grad():
            network.wrong.fill_(wrong)
        keeper.step()
        keeper.end_epoch([(torch.arange(N), RIGHT)])
        yield keeper


def chosen(patience=3, **wrong):
    return choose_recipe(train, N, 2, recipes=recipes(**wrong), patience=patience)


def test_the_recipe_that_predicts_most_labels_is_chosen_and_the_first_of_several():
    assert chosen(a=[60], b=[58]).name == "b"
    assert chosen(a=[60], b=[60]).name == "a"
    assert chosen(a=[60], b=[20], c=[10]).name == "c"


def test_more_recipes_need_a_larger_difference():
    differ = {"a": [60], "b": [54]}  # 6 rows of 200 where only b is right, 2.3 standard errors
    assert chosen(**differ).difference("a")[2] < 0
    many = differ | {f"c{i}": [60] for i in range(30)}
    assert chosen(**many).difference("a")[2] > 0


def test_a_training_stops_when_nothing_better_was_kept_and_keeps_its_best_network():
    choice = chosen(a=[150, 30, 80, 80, 80, 20], patience=3)
    assert choice.trials["a"].epochs == 5
    assert choice.trials["a"].accuracy == pytest.approx(1 - 30 / N)
    assert choice.network.wrong.item() == 30


def test_no_training_stops_before_it_had_as_many_epochs_as_the_longest():
    """A loss that stands still at first, as SCE and soft bootstrap do, is not given up before others are."""
    slow = [90, 90, 90, 90, 90, 90, 5, 90, 90, 90, 90, 90]
    choice = chosen(slow=slow, steady=[80, 70, 60, 50, 40, 30, 30, 30, 30, 20], patience=3)
    assert choice.name == "slow" and choice.network.wrong.item() == 5
    assert {name: trial.epochs for name, trial in choice.trials.items()} == {"slow": 10, "steady": 10}
    assert chosen(slow=slow, patience=3).trials["slow"].epochs == 4  # alone, it stops where nothing has changed


def test_a_training_that_waited_draws_as_if_it_were_alone():
    drawn = {}

    def random_train(criterion):
        torch.manual_seed(0)
        own = drawn.setdefault(len(drawn), [])
        for keeper in train(criterion):
            own.append(torch.rand(()).item())
            yield keeper

    made = recipes(a=[60] * 8, b=[60, 59, 58, 57, 56, 56, 56, 56])
    choose_recipe(random_train, N, 2, recipes=made, patience=3)
    assert len(drawn[0]) == 8 and drawn[0] == drawn[1]


def test_a_training_that_is_over_is_given_free_before_the_next_goes_on():
    keepers, alive = [], []

    def watched(criterion):
        for epoch, keeper in enumerate(train(criterion)):
            if epoch == 0:
                keepers.append(weakref.ref(keeper))
            alive.append(sum(one() is not None for one in keepers))
            yield keeper

    choose_recipe(
        watched, N, 2, recipes=recipes(a=[60] * 9, b=[60, 50, 40, 30, 20, 20, 20, 20], c=[60] * 9), patience=3
    )
    assert alive[-1] == 1 and max(alive) == 3


def test_the_interval_covers_the_difference_of_paired_shares():
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for _ in range(2000):
        draws = torch.rand(150, generator=generator)
        first, second = draws < 0.7, (draws > 0.06) & (draws < 0.72)  # shares 0.70 and 0.66
        _, low, high = paired_interval(first, second, 0.05)
        covered += low <= 0.04 <= high
    assert 0.93 <= covered / 2000 <= 0.985  # 0.95, with five standard errors and the rounding of counts


def test_the_interval_of_one_row_ends_where_differences_end():
    yes, no = torch.ones(1, dtype=torch.bool), torch.zeros(1, dtype=torch.bool)
    assert paired_interval(yes, no, 0.05)[2] == 1 and paired_interval(no, yes, 0.05)[1] == -1


def test_the_sentence_names_what_the_labels_cannot_tell():
    said = str(chosen(a=[58], b=[60], c=[120]))
    assert "a is chosen" in said and "cannot tell whether other recipes are better: b." in said


def test_a_recipe_that_remembers_rows_is_called_as_it_is():
    seen = []

    def spy(criterion):
        seen.append(criterion)
        yield from train(AcceptsIndex(Told([10])))

    made = {"ELR": RECIPES["ELR"], "ce": RECIPES["cross-entropy"]}
    choose_recipe(spy, N, 2, recipes=made)
    assert isinstance(seen[0], ELRLoss) and isinstance(seen[1], AcceptsIndex)


def test_a_loss_that_accepts_an_index_is_the_loss_inside():
    logits, target = torch.randn(5, 3, requires_grad=True), torch.tensor([0, 1, 2, 0, 1])
    criterion = AcceptsIndex(nn.CrossEntropyLoss(label_smoothing=0.1))
    expected = nn.functional.cross_entropy(logits, target, label_smoothing=0.1)
    torch.testing.assert_close(criterion(logits, target, torch.arange(5)), expected, rtol=0, atol=0)
    torch.testing.assert_close(criterion(logits, target), expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"recipes": {}}, "recipes"),
        ({"train": lambda criterion: iter(())}, "train"),
        ({"train": lambda criterion: iter([0.5])}, "train"),
        ({"patience": 0}, "patience"),
    ],
)
def test_bad_input_is_named(arguments, message):
    given = {"train": train, "num_rows": N, "num_classes": 2} | arguments
    with pytest.raises((TypeError, ValueError), match=f"`{message}`"):
        choose_recipe(**given)
