"""Arrays of images as squares, against Pillow."""

import numpy as np
import pytest
from PIL import Image

from mgce_lab.images.square_images import as_pixels, read_squares, squared, with_channels


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


def test_squares_are_upright_and_grey_only_if_all_are(tmp_path):
    pixels = np.zeros((8, 12, 3), np.uint8)
    pixels[:, 2:6] = 200  # the left half of the central square
    told = Image.Exif()
    told[274] = 6  # to be turned clockwise: the left half becomes the upper one
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    Image.fromarray(pixels).save(paths[0], exif=told)
    Image.new("RGB", (9, 9), (10, 20, 30)).save(paths[1])
    done = []
    found, read = read_squares(paths, 4, done.append)
    assert found.shape == (2, 3, 4, 4) and done == [1, 2] and read.all()
    assert (found[0, :, 0] > 150).all() and (found[0, :, 3] < 50).all()
    assert found[1, :, 0, 0].tolist() == [10, 20, 30]
    grey, _ = read_squares(paths[:1], 4, done.append)
    np.testing.assert_array_equal(grey[0], found[0, :1])
    with pytest.raises(ValueError, match="Expected `size`"):
        read_squares(paths, 10_000, done.append)


def test_squares_of_a_folder_lack_the_pictures_that_cannot_be_read(tmp_path):
    paths = [tmp_path / f"{place}.png" for place in range(3)]
    for path in paths:
        Image.new("RGB", (9, 9), (10, 20, 30)).save(path)
    paths[1].write_bytes(paths[1].read_bytes()[:40])
    found, read = read_squares(paths, 4)
    assert found.shape == (2, 3, 4, 4) and read.tolist() == [True, False, True]
    with pytest.raises(OSError, match=r"Expected .*1\.png to be an image"):
        read_squares(paths[1:2], 4)
