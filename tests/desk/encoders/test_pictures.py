"""Pictures before a network."""

import numpy as np
import pytest
import torch
from PIL import Image

from mgce.desk.encoders.pictures import MEAN, STD, CentralSquare, read_squares


def test_a_picture_is_turned_as_its_camera_says(tmp_path):
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:4] = 200
    plain = Image.fromarray(pixels)
    told = Image.Exif()
    told[274] = 6  # to be turned clockwise
    plain.save(tmp_path / "x.png", exif=told)
    turned = CentralSquare(8)(Image.open(tmp_path / "x.png"))
    torch.testing.assert_close(turned, CentralSquare(8)(plain.transpose(Image.Transpose.ROTATE_270)))
    assert not torch.allclose(turned, CentralSquare(8)(plain))


def test_the_ends_of_the_longer_side_go():
    pixels = np.full((4, 10, 3), 255, np.uint8)
    pixels[:, 3:7] = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    found = CentralSquare(4)(Image.fromarray(pixels))
    raw = (found * torch.tensor(STD)[:, None, None] + torch.tensor(MEAN)[:, None, None]) * 255
    np.testing.assert_allclose(raw.permute(1, 2, 0).numpy(), pixels[:, 3:7], atol=1e-3)


def test_grey_and_see_through_pictures_become_colours():
    for mode in ("L", "RGBA", "P"):
        assert CentralSquare(4)(Image.new(mode, (6, 5))).shape == (3, 4, 4)


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
