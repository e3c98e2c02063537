"""A small network for images: its inputs by hand, its file, and the loop that trains it."""

import numpy as np
import pytest
import torch
from torch import nn

from mgce.losses.indexed import AcceptsIndex
from mgce_lab.images.image_model import ImageLoop, ImageModel, load_image_model

N, SIZE = 40, 8


def loop(pixels, **options):
    target = np.arange(N) % 2
    return ImageLoop(pixels, target, ["a", "b"], **{"epochs": 2, "changed": False, "seed": 0} | options)


def pixels(channels=1):
    bright = np.random.default_rng(0).integers(0, 90, (N, channels, SIZE, SIZE), dtype=np.uint8)
    bright[1::2, :, 4:] += 150
    return bright


def run(one):
    criterion = AcceptsIndex(nn.CrossEntropyLoss())
    *_, keeper = one.run(criterion, np.arange(30), np.arange(30, N))
    return keeper


@pytest.fixture(scope="module")
def keeper():
    return run(loop(pixels()))


def inputs(x):
    one = loop(x)
    return ImageModel(["a", "b"], SIZE, one.mean, one.std).preprocessing(torch.from_numpy(x)).numpy()


def test_inputs_are_standardised_by_channel_whatever_their_scale():
    x = pixels(3)
    wanted = (x - x.mean((0, 2, 3), keepdims=True)) / x.std((0, 2, 3), keepdims=True)
    np.testing.assert_allclose(inputs(x), wanted, atol=1e-5)
    np.testing.assert_allclose(inputs(x.astype(np.float32) / 255 - 0.5), wanted, atol=1e-5)


def test_a_channel_of_one_value_divides_by_nothing():
    x = pixels(3)
    x[:, 2] = 7
    assert np.isfinite(run(loop(x)).best().logits(x).numpy()).all()


def test_the_file_has_the_network(keeper, tmp_path):
    (tmp_path / "a.pt").write_bytes(keeper.best().to_bytes())
    model = load_image_model(tmp_path / "a.pt")
    assert model.classes == ("a", "b") and model.size == SIZE and not model.training
    torch.testing.assert_close(model.logits(pixels()), keeper.best().logits(pixels()), rtol=0, atol=0)


def test_the_central_square_is_scaled_before_it_is_predicted():
    model = run(loop(pixels(), epochs=20)).best()
    x = pixels()[:, 0]
    wanted = np.array(["a", "b"])[np.arange(N) % 2]
    assert (model.predict(x) == wanted).mean() > 0.9
    assert model.predict(np.pad(x, [(0, 0), (0, 0), (3, 3)])).tolist() == model.predict(x).tolist()
    large = x.repeat(4, 1).repeat(4, 2)
    large[:, 12:20, 12:20] = 40  # of which the network would see nothing but this, were it cropped
    assert (model.predict(large) == wanted).mean() > 0.9


@pytest.mark.parametrize("content", [b"", b"PK", None], ids=["empty", "damaged", "another"])
def test_another_file_is_refused_in_one_sentence(content, tmp_path):
    path = tmp_path / "a.pt"
    torch.save({"format": 9}, path) if content is None else path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^Expected `path` to be a network that `mgce-lab train` wrote"):
        load_image_model(path)
    with pytest.raises(FileNotFoundError):
        load_image_model(tmp_path / "b.pt")


def test_a_seed_determines_the_training(keeper):
    again, other = run(loop(pixels())), run(loop(pixels(), seed=1))
    assert again.epochs == keeper.epochs
    wanted, same, differs = (one.best().logits(pixels()) for one in (keeper, again, other))
    assert torch.equal(wanted, same) and not torch.equal(wanted, differs)
    changed = run(loop(pixels(), changed=True)).best().logits(pixels())
    assert not torch.equal(wanted, changed)
