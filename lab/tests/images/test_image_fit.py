"""Images with wrong labels: the order of rows, copies of images, and what is learnt."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from mgce.loop.recipes import RECIPES
from mgce_lab.images.image_fit import ImagePlan, fit_images

N = 60


def images(n=N):
    rng = np.random.default_rng(0)
    pixels, kind = rng.integers(0, 120, (n, 1, 4, 4), dtype=np.uint8), np.arange(n) % 2
    pixels[kind == 1, :, 2:] += 100
    labels = np.array(["down", "up"])[kind]
    labels[:6] = labels[:6][::-1]
    return pixels, labels


def test_the_order_of_rows_changes_nothing(two_recipes):
    pixels, labels = images()
    order = np.random.default_rng(1).permutation(N)
    plan = ImagePlan(epochs=2, folds=2)
    one, other = fit_images(pixels, labels, plan), fit_images(pixels[order], labels[order], plan)
    assert str(one.choice) == str(other.choice) and one.choice.name in RECIPES and one.picture == other.picture
    assert one.held_out[order].tolist() == other.held_out.tolist()
    np.testing.assert_array_equal(one.judged.probs[order], other.judged.probs)
    np.testing.assert_array_equal(order[other.judged.order], one.judged.order)
    np.testing.assert_array_equal(one.model.logits(pixels), other.model.logits(pixels))


def test_copies_of_an_image_stay_together_and_are_judged_alike(two_recipes):
    pixels, labels = images()
    pixels[40:] = pixels[:20]
    labels[59] = "up" if labels[19] == "down" else "down"
    found = fit_images(pixels, labels, ImagePlan(epochs=1, folds=2))
    assert found.held_out[:20].tolist() == found.held_out[40:].tolist() and 0 < found.held_out.sum()
    np.testing.assert_array_equal(found.judged.probs[:20], found.judged.probs[40:])
    assert found.n_validation == 8  # a fifth of the 40 distinct ones
    assert "20 of the 60 rows are copies" in found.notes[0]


def test_no_row_is_judged_by_a_network_that_was_trained_on_it(two_recipes, monkeypatch):
    """The folds partition the training rows, and the rows held out are in none."""
    seen = []
    from mgce_lab.images.image_model import ImageLoop

    def run(self, criterion, rows, validation, *others, real=ImageLoop.run):
        seen.append((set(rows.tolist()), set(validation.tolist())))
        return real(self, criterion, rows, validation, *others)

    monkeypatch.setattr(ImageLoop, "run", run)
    pixels, labels = images()
    found = fit_images(pixels, labels, ImagePlan(epochs=1, folds=3))
    (train, validation), _, *folds = seen
    assert len(folds) == 3 and all(one[1] == validation for one in seen)
    assert train | validation == set(range(N)) and not train & validation
    left_out = [train - rows for rows, _ in folds]
    assert set.union(*left_out) == train and sum(map(len, left_out)) == len(train)
    assert set(np.flatnonzero(found.held_out)) == validation


def test_only_colour_images_are_changed_at_random(two_recipes):
    grey, labels = images()
    for pixels, same in ((grey, True), (grey.repeat(3, 1), False)):
        plans = (ImagePlan(epochs=1, folds=0, changed=changed) for changed in (True, False))
        one, other = (fit_images(pixels, labels, plan).model.logits(pixels) for plan in plans)
        assert torch.equal(one, other) == same


def test_rare_labels_are_left_out_and_named(two_recipes):
    pixels, labels = images()
    labels = np.array([*labels[:-1], "once"])
    found = fit_images(pixels, labels, ImagePlan(epochs=1, folds=0))
    assert found.judged is None and found.used.tolist() == list(range(N - 1))
    assert found.notes == ["Rows with a label that no other row has were left out: once."]


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (["a"] * N, {}, "at least two classes"),
        (["a", "b"] * 30, {"folds": 25}, "Expected `folds` to be at most 24"),
        (["a", "b"] * 30, {"validation_size": 0.01}, "enough rows of every class"),
        (["a", "b"] * 30, {"validation_size": 1.0}, "Expected `validation_size`"),
        (["a", "b"] * 30, {"folds": 1}, "Expected `folds` to be 0, or at least 2"),
        (["a", "b"] * 30, {"epochs": 0}, "Expected `epochs`"),
    ],
)
def test_bad_input_is_named(labels, options, message):
    with pytest.raises(ValueError, match=message):
        fit_images(images()[0], labels, ImagePlan(**options))


@pytest.mark.nightly
def test_digits_are_learnt_and_their_wrong_labels_found():
    x, right = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    given = np.where(rng.random(len(right)) < 0.3, rng.integers(0, 10, len(right)), right)
    pixels = (x.reshape(-1, 1, 8, 8) * 15).astype(np.uint8)
    found = fit_images(pixels[:1400], given[:1400].astype(str), ImagePlan())
    predicted = found.model.predict(pixels[1400:, 0]).astype(int)
    assert (predicted == right[1400:]).mean() > 0.93
    assert roc_auc_score(given[:1400] != right[:1400], found.judged.wrong) > 0.97
