"""An encoder on its own."""

import numpy as np

from mgce.encoders.inputs import Inputs
from tiny_encoder import WIDTH, pictures, tiny


def test_the_width_is_measured_and_nothing_is_trained(tmp_path):
    pictures(tmp_path, 2)
    encoder = tiny()
    found = encoder.encode(Inputs.of_folder(tmp_path).items)
    assert encoder.card.width == WIDTH and found.shape == (2, WIDTH)
    assert found.dtype == np.float32 and found.flags.writeable
