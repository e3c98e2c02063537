"""Many pictures or texts: equal to one by one, whole after a stop, kept where nothing has changed."""

import numpy as np
import pytest
import torch
from PIL import Image

from mgce.desk.encoders import embedding
from mgce.desk.encoders.embedding import Inputs, embed, unread_pictures
from mgce.features.feature_files import SUFFIXES, TEXTS, read_features
from tiny_encoder import WIDTH, pictures, tiny


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "BLOCK", 2)
    pictures(tmp_path / "photos")
    return tmp_path


class StoppedError(Exception):
    """What a kill is here."""


def kill(done, total):
    if done > 13:
        raise StoppedError


def test_features_are_those_of_the_network_on_each_picture(folder):
    """The picture as PyTorch scales it, written out: 6 x 8 pixels become the 6 x 6 in the middle, then 4 x 4."""
    encoder, inputs = tiny(), Inputs.of_folder(folder / "photos")
    assert embed(encoder, inputs, folder / "x.npy", batch=3)
    found = read_features(folder / "x.npy")
    torch.manual_seed(0)
    net = torch.nn.Conv2d(3, WIDTH, 2)
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    for name, row in zip(found.names, found.values, strict=True):
        pixels = np.asarray(Image.open(folder / "photos" / name), dtype=float) / 255
        height = len(pixels)
        left, top = (8 - min(height, 8)) // 2, (height - min(height, 8)) // 2
        square = pixels[top : top + min(height, 8), left : left + min(height, 8)]
        image = torch.from_numpy((square - mean) / std).permute(2, 0, 1).float()[None]
        small = torch.nn.functional.interpolate(image, size=4, mode="bicubic", antialias=True)
        np.testing.assert_allclose(row, net(small).mean((2, 3))[0].detach(), rtol=1e-5, atol=1e-6)
    assert found.names.tolist() == sorted(found.names) and len(found.names) == 20
    assert found.card == encoder.card and found.values.dtype == np.float32


def test_texts_and_half_types(tmp_path):
    inputs = Inputs(TEXTS, ("one", "two", "three"), ("1", "2", "3"))
    encoder = tiny(TEXTS)
    for half, name in ((False, "x.npz"), (True, "x-half.npz")):
        embed(encoder, inputs, tmp_path / name, half=half)
    whole, half = (read_features(tmp_path / name).values for name in ("x.npz", "x-half.npz"))
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, whole.astype(np.float16))
    with pytest.raises(ValueError, match="Expected `encoder` to be an encoder of texts, but got 'one of pictures'"):
        embed(tiny(), inputs, tmp_path / "y.npz")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".safetensors"])
def test_a_command_that_was_stopped_goes_on_and_writes_equal_bytes(folder, suffix):
    inputs = Inputs.of_folder(folder / "photos")
    whole, stopped = folder / f"whole{suffix}", folder / f"stopped{suffix}"
    embed(tiny(), inputs, whole, batch=3)

    with pytest.raises(StoppedError):
        embed(tiny(), inputs, stopped, batch=3, on_rows=kill)
    assert not stopped.exists()
    (parts,) = (folder / f"{stopped.name}.parts").iterdir()
    assert len([*parts.iterdir()]) == 2  # of two batches each: the third was not written
    again = tiny()
    encoded = []
    counting = type(again)(again.card, again.prepare, lambda batch: (encoded.append(len(batch)), again.embed(batch))[1])
    embed(counting, inputs, stopped, batch=3)
    assert sum(encoded) == 20 - 12
    assert stopped.read_bytes() == whole.read_bytes()
    assert not (folder / f"{stopped.name}.parts").exists()


def test_what_is_there_is_kept_until_inputs_or_weights_change(folder):
    out = folder / "x.npz"
    assert embed(tiny(), Inputs.of_folder(folder / "photos"), out)
    before = out.stat().st_mtime_ns
    assert not embed(tiny(), Inputs.of_folder(folder / "photos"), out)
    assert out.stat().st_mtime_ns == before
    assert embed(tiny(seed=1), Inputs.of_folder(folder / "photos"), out)
    Image.new("RGB", (4, 4)).save(folder / "photos/dark/000.png")
    assert embed(tiny(seed=1), Inputs.of_folder(folder / "photos"), out)


def test_blocks_of_other_inputs_are_not_taken(folder):
    out, inputs = folder / "x.npz", Inputs.of_folder(folder / "photos")

    with pytest.raises(StoppedError):
        embed(tiny(), inputs, out, batch=3, on_rows=kill)
    embed(tiny(seed=1), inputs, out, batch=3)
    np.testing.assert_array_equal(read_features(out).values[0], tiny(seed=1).encode(inputs.items[:3])[0])


def test_a_damaged_picture_is_left_out_and_named(folder):
    """The others have the features that they have without it, also where it ends a batch or a block."""
    inputs = Inputs.of_folder(folder / "photos")
    embed(tiny(), inputs, folder / "whole.npz", batch=3)
    whole = read_features(folder / "whole.npz")
    lost = [inputs.names[place] for place in (0, 5, 6, 7, 8)]
    wanted = {name: row for name, row in zip(whole.names, whole.values, strict=True) if name not in lost}
    for name in lost:
        (folder / "photos" / name).write_bytes(b"nothing")
    again = Inputs.of_folder(folder / "photos")
    for suffix in SUFFIXES:
        out = folder / f"x{suffix}"
        assert embed(tiny(), again, out, batch=3) and not embed(tiny(), again, out, batch=3)
        found = read_features(out)
        assert found.names.tolist() == [*wanted]
        np.testing.assert_allclose(found.values, np.stack([*wanted.values()]), rtol=1e-5, atol=1e-6)
        names, (note,) = unread_pictures(again, found.names.tolist())
        assert names == lost and note.startswith("5 of the 20 pictures could not be read and were left out: dark/000")
    assert unread_pictures(inputs, whole.names.tolist()) == ([], [])


def test_a_folder_without_a_sound_picture_is_refused(folder):
    inputs = Inputs.of_folder(folder / "photos")
    for path in inputs.items:
        path.write_bytes(b"nothing")
    with pytest.raises(OSError, match=r"Expected .*000\.png to be an image"):
        embed(tiny(), inputs, folder / "x.npz")
    assert not (folder / "x.npz").exists()


def test_features_that_are_not_finite_are_refused(tmp_path):
    encoder = tiny(TEXTS)
    scale = torch.tensor([[1.0], [torch.inf], [1.0]])
    broken = type(encoder)(encoder.card, encoder.prepare, lambda batch: encoder.embed(batch) * scale)
    with pytest.raises(ValueError, match="one whose features are finite, but got 'others for two'"):
        embed(broken, Inputs(TEXTS, ("one", "two", "three"), ("1", "2", "3")), tmp_path / "x.npz")
