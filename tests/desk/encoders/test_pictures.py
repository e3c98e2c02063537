"""Pictures before a network."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from mgce.desk.encoders.embedding import Inputs, unread_pictures
from mgce.desk.encoders.pictures import CentralSquare
from mgce.desk.files.images import ImageFiles
from mgce.features.feature_files import PICTURES


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
    square = CentralSquare(4)
    found, mean, deviation = (
        torch.as_tensor(of) for of in (square(Image.fromarray(pixels)), square.mean, square.deviation)
    )
    raw = (found * deviation[:, None, None] + mean[:, None, None]) * 255
    np.testing.assert_allclose(raw.permute(1, 2, 0).numpy(), pixels[:, 3:7], atol=1e-3)


def test_grey_and_see_through_pictures_become_colours():
    for mode in ("L", "RGBA", "P"):
        assert CentralSquare(4)(Image.new(mode, (6, 5))).shape == (3, 4, 4)
    white = CentralSquare(4)(Image.new("L", (6, 5), 255))[:, 0, 0]
    torch.testing.assert_close(white, torch.tensor([2.2489, 2.4286, 2.6400]), atol=1e-4, rtol=0)  # as on ImageNet
    assert str(CentralSquare(4)).startswith("upright, central square, 4 x 4 bicubic, mean (0.485, ")


def test_a_picture_of_sixteen_bits_has_the_levels_of_eight(tmp_path):
    Image.fromarray(np.array([[0, 257, 25_700], [51_400, 65_278, 65_535]], np.uint16)).save(tmp_path / "x.png")
    pixels, target = ImageFiles((tmp_path / "x.png",), np.array([7]))[0]
    assert target == 7 and pixels.shape == (3, 2, 3)
    assert pixels.tolist() == [[[0, 1, 100], [200, 254, 255]]] * 3


def test_pictures_that_cannot_be_read_are_counted():
    inputs = Inputs(PICTURES, tuple(map(Path, "abcde")), tuple("abcde"))
    assert unread_pictures(inputs, "abcde") == unread_pictures(inputs, None) == ([], [])
    said = "of the 5 pictures could not be read and"
    assert unread_pictures(inputs, "bcde") == (["a"], [f"1 {said} was left out: a."])
    assert unread_pictures(inputs, "cde") == (["a", "b"], [f"2 {said} were left out: a, b."])
