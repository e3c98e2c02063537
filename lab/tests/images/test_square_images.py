"""Arrays of images as squares, against Pillow."""

import numpy as np
import pytest
from PIL import Image

from mgce_lab.images.square_images import as_pixels, squared, with_channels


def test_channels_come_in_front_and_bytes_stay_bytes():
    x = np.arange(2 * 5 * 6 * 3, dtype=np.uint8).reshape(2, 5, 6, 3)
    pixels = as_pixels(x)
    assert pixels.shape == (2, 3, 5, 6) and pixels.dtype == np.uint8
    np.testing.assert_array_equal(pixels[1, 2], x[1, :, :, 2])
    assert as_pixels(x[..., 0].astype(float)).dtype == np.float32


def test_the_central_square_is_scaled_as_pillow_scales_it():
    x = np.random.default_rng(0).integers(0, 256, (3, 12, 20), dtype=np.uint8)
    found = squared(as_pixels(x), 5)
    for image, made in zip(x, found, strict=True):
        wanted = Image.fromarray(image[:, 4:16]).resize((5, 5), Image.Resampling.BILINEAR)
        np.testing.assert_allclose(made[0].astype(int), np.asarray(wanted).astype(int), atol=1)
    np.testing.assert_array_equal(squared(as_pixels(x), 12)[:, 0], x[:, :, 4:16])


@pytest.mark.parametrize(
    "x",
    [np.zeros((5, 64)), np.zeros((5, 3, 3)), np.zeros((0, 8, 8)), np.zeros((5, 8, 8, 7)), np.full((2, 8, 8), np.nan)],
    ids=["rows", "small", "none", "channels", "nan"],
)
def test_what_is_no_image_is_refused(x):
    with pytest.raises(ValueError, match="Expected `x`"):
        as_pixels(x)


def test_grey_and_colour_become_one_another():
    grey = np.arange(32, dtype=np.uint8).reshape(2, 1, 4, 4)
    colour = with_channels(grey, 3)
    assert colour.shape == (2, 3, 4, 4)
    np.testing.assert_array_equal(with_channels(colour, 1), grey)
    with pytest.raises(ValueError, match="of 4 channels, or of one"):
        with_channels(colour, 4)
