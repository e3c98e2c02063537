"""An encoder on its own."""

import numpy as np
import torch

from mgce.desk.encoders.embedding import Inputs, of_module
from mgce.features.feature_files import PICTURES
from tiny_encoder import WIDTH, pictures, tiny


def test_nothing_is_trained(tmp_path):
    """Neither weights nor the statistics of normalization change, nothing is dropped, and no gradient is kept."""
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5), torch.nn.Linear(3, WIDTH))
    seen = []

    def embed(batch):
        seen.append(model(torch.stack(batch)))
        return seen[-1]

    def prepare(picture):
        return torch.tensor(picture.resize((1, 1)).getpixel((0, 0))).float()

    encoder = of_module("tiny:net", PICTURES, model, "mean", prepare, embed)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    pictures(tmp_path, 4)
    items = Inputs.of_folder(tmp_path).items
    first, again = encoder.encode(items), encoder.encode(items)
    np.testing.assert_array_equal(first, again)
    assert not any(found.requires_grad for found in seen)
    assert not any(weight.requires_grad for weight in model.parameters()) and not model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_the_width_is_that_of_the_features(tmp_path):
    pictures(tmp_path, 2)
    encoder = tiny()
    found = encoder.encode(Inputs.of_folder(tmp_path).items)
    assert encoder.card.width == WIDTH and found.shape == (2, WIDTH)
    assert found.dtype == np.float32 and found.flags.writeable
