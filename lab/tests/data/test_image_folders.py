import io
import warnings
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch.utils.data import DataLoader

from mgce.desk.encoders.pictures import upright
from mgce.desk.files import images
from mgce_lab.data import image_folders, image_sets, load_images


def draw(path, grey, mode="RGB"):
    """Write an image 6 wide and 4 high of one grey level."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (6, 4), grey if mode == "L" else (grey,) * 3).save(path)


@pytest.fixture
def tiny_imagenet(tmp_path, monkeypatch):
    root = tmp_path / "tiny-imagenet-200"
    for name, greys in (("n02", [20, 21]), ("n01", [10, 11, 12])):
        for i, grey in enumerate(greys):
            draw(root / "train" / name / "images" / f"{name}_{i}.JPEG", grey, "L" if grey == 11 else "RGB")
    for i, grey in enumerate((200, 100)):
        draw(root / "val" / "images" / f"val_{i}.JPEG", grey)
    (root / "wnids.txt").write_text("n02\nn01\n")
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn02\t0\t0\t62\t62\nval_1.JPEG\tn01\t0\t0\t9\t9\n")
    monkeypatch.setattr(image_folders, "TINY_IMAGENET_ROWS", {"train": 5, "val": 2})
    return root


def test_tiny_imagenet_has_its_classes_in_the_order_of_their_names(tmp_path, tiny_imagenet):
    dataset = load_images("tiny_imagenet", data_dir=tmp_path)
    assert dataset.classes == ("n01", "n02") and dataset.validation is None
    assert dataset.train.target.tolist() == [0, 0, 0, 1, 1] and dataset.test.target.tolist() == [1, 0]
    read = [(round(image.float().mean().item()), label) for image, label in map(dataset.train.__getitem__, range(5))]
    assert read == [(10, 0), (11, 0), (12, 0), (20, 1), (21, 1)]
    image, label = dataset.test[0]
    assert image.shape == (3, 4, 6) and image.dtype == torch.uint8 and (image == 200).all() and label == 1


def test_files_take_a_transform_and_other_labels_and_make_batches(tmp_path, tiny_imagenet):
    files = load_images("tiny_imagenet", data_dir=tmp_path).train
    noisy = np.array([1, 1, 1, 0, 0])
    files = replace(files, target=noisy, transform=lambda image: torch.tensor(image.getpixel((0, 0))))
    assert len(files) == 5
    images, labels = next(iter(DataLoader(files, batch_size=5)))
    assert images.tolist() == [[grey] * 3 for grey in (10, 11, 12, 20, 21)] and labels.tolist() == noisy.tolist()


def test_the_checksum_is_of_names_pixels_and_labels(tmp_path, tiny_imagenet):
    files = load_images("tiny_imagenet", data_dir=tmp_path)
    part = image_sets.Images(np.zeros((2, 1, 3, 3), np.uint8), np.array([0, 1]))
    assert len(part) == 2
    memory = image_sets.ImageDataset("some", ("a", "b"), part, part)
    paths = files.train.paths
    others = [
        *(replace(data, name="other") for data in (files, memory)),
        *(replace(data, classes=("a", "c")) for data in (files, memory)),
        replace(memory, validation=part),
        replace(memory, train=replace(part, images=part.images + np.uint8(1))),
        replace(memory, test=replace(part, target=part.target[::-1].copy())),
        replace(files, train=replace(files.train, paths=(*paths[1:], paths[0]))),
        replace(files, train=replace(files.train, target=files.train.target[::-1].copy())),
    ]
    sums = [data.checksum() for data in (files, memory, *others)]
    assert len(set(sums)) == len(sums) and files.checksum() == sums[0]


def test_tiny_imagenet_is_unpacked_from_its_verified_archive(tmp_path, tiny_imagenet, publish):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(tiny_imagenet.rglob("*")):
            archive.write(path, path.relative_to(tmp_path))
    tiny_imagenet.rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError, match="hold tiny-imagenet-200.zip, .* get it from http://cs231n.stanford"):
        load_images("tiny_imagenet", data_dir=tmp_path)
    publish(image_folders, "TINY_IMAGENET", buffer.getvalue())
    assert load_images("tiny_imagenet", data_dir=tmp_path).train.target.tolist() == [0, 0, 0, 1, 1]
    assert {path.name for path in tmp_path.iterdir()} == {"moved", "tiny-imagenet-200", "tiny-imagenet-200.zip"}


def test_damaged_folders_and_images_are_refused_with_a_sentence(tmp_path, tiny_imagenet):
    image = tiny_imagenet / "train" / "n01" / "images" / "n01_0.JPEG"
    content = image.read_bytes()
    files = load_images("tiny_imagenet", data_dir=tmp_path).train
    for damaged in (content[: len(content) // 2], b"not an image"):
        image.write_bytes(damaged)
        with pytest.raises(OSError, match=r"Expected .*n01_0.JPEG to be an image, but got: "):
            files[0]
    image.unlink()
    with pytest.raises(OSError, match=r"Expected .*n01_0.JPEG to be an image, but got: .*No such file"):
        files[0]
    with pytest.raises(ValueError, match="tiny-imagenet-200/train to have 5 images, but got 4: the file is damaged"):
        load_images("tiny_imagenet", data_dir=tmp_path)
    image.write_bytes(content)
    annotations = tiny_imagenet / "val" / "val_annotations.txt"
    for line in ("val_0.JPEG\tn09", "val_0.JPEG"):
        annotations.write_text(line + "\nval_1.JPEG\tn01\n")
        with pytest.raises(
            ValueError, match="val_annotations.txt to have a file and a class of wnids.txt in every line"
        ):
            load_images("tiny_imagenet", data_dir=tmp_path)


@pytest.fixture
def webvision(tmp_path, monkeypatch):
    root = tmp_path / "webvision"
    (root / "info").mkdir(parents=True)
    (root / "info" / "synsets.txt").write_text("".join(f"n{i:08} name {i}, other name\n" for i in range(1000)))
    (root / "info" / "train_filelist_google.txt").write_text(
        "google/q0001/a.jpg 0\ngoogle/q0050/b.jpg 49\ngoogle/q0051/c.jpg 50\ngoogle/q1631/d.jpg 999\n"
    )
    (root / "info" / "val_filelist.txt").write_text("val1.jpg 3\nval2.jpg 700\n")
    draw(root / "google" / "q0050" / "b.jpg", 30)
    draw(root / "val_images_256" / "val1.jpg", 40)
    rows = {"train_filelist_google.txt": 2, "val_filelist.txt": 1}
    monkeypatch.setattr(image_folders, "WEBVISION_ROWS", rows)
    return root


def test_webvision_has_the_first_fifty_classes(tmp_path, webvision):
    dataset = load_images("webvision", data_dir=tmp_path)
    assert len(dataset.classes) == 50 and dataset.classes[49] == "n00000049 name 49, other name"
    assert dataset.train.target.tolist() == [0, 49] and dataset.test.target.tolist() == [3]
    assert abs(dataset.train[1][0].float().mean() - 30) < 1 and abs(dataset.test[0][0].float().mean() - 40) < 1


def test_damaged_webvision_lists_are_refused_with_a_sentence(tmp_path, webvision):
    listing = webvision / "info" / "train_filelist_google.txt"
    listing.write_text("google/q0001/a.jpg 0\n")
    with pytest.raises(ValueError, match="train_filelist_google.txt to have 2 images, but got 1"):
        load_images("webvision", data_dir=tmp_path)
    for line in ("google/q0001/a.jpg", "google/q0001/a.jpg x", "google/q0001/a b.jpg 0"):
        listing.write_text(line)
        with pytest.raises(ValueError, match="a file and the number of its class in every line, but got " + line):
            load_images("webvision", data_dir=tmp_path)
    listing.unlink()
    with pytest.raises(
        FileNotFoundError, match="hold webvision/info/train_filelist_google.txt, .* https://data.vision.ee"
    ):
        load_images("webvision", data_dir=tmp_path, download=True)


@pytest.fixture
def clothing1m(tmp_path, monkeypatch):
    root = tmp_path / "clothing1m"
    keys = [f"images/{i}/00/{i}.jpg" for i in range(6)]
    for i, key in enumerate(keys):
        draw(root / key, 40 * i)
    (root / "category_names_eng.txt").write_text("T-Shirt\nDown Coat\nVest\n")
    (root / "noisy_label_kv.txt").write_text("".join(f"{key} {i % 3}\n" for i, key in enumerate(keys)))
    (root / "clean_label_kv.txt").write_text("".join(f"{key} {(i + 1) % 3}\n" for i, key in enumerate(keys)))
    parts = {"noisy_train": keys[:3], "clean_val": keys[3:5], "clean_test": keys[5:]}
    for name, part in parts.items():
        (root / f"{name}_key_list.txt").write_text("\n".join(part))
    rows = {f"{name}_key_list.txt": len(part) for name, part in parts.items()}
    monkeypatch.setattr(image_folders, "CLOTHING1M_ROWS", rows)
    return root


def test_clothing1m_trains_on_noisy_labels_and_is_tested_on_clean_ones(tmp_path, clothing1m):
    dataset = load_images("clothing1m", data_dir=tmp_path)
    assert dataset.classes == ("T-Shirt", "Down Coat", "Vest")
    assert dataset.train.target.tolist() == [0, 1, 2]
    assert dataset.validation.target.tolist() == [1, 2] and dataset.test.target.tolist() == [0]
    assert abs(dataset.test[0][0].float().mean() - 200) < 1


def test_damaged_clothing1m_lists_are_refused_with_a_sentence(tmp_path, clothing1m):
    labels = clothing1m / "clean_label_kv.txt"
    text = labels.read_text()
    labels.write_text(text.replace("images/5/00/5.jpg 0\n", ""))
    with pytest.raises(ValueError, match="clean_test_key_list.txt to have images with a label each, but got images/5"):
        load_images("clothing1m", data_dir=tmp_path)
    labels.write_text(text.replace("5.jpg 0", "5.jpg 3"))
    with pytest.raises(ValueError, match="clean_label_kv.txt to have classes below 3, but got 3"):
        load_images("clothing1m", data_dir=tmp_path)
    labels.write_text(text)
    (clothing1m / "noisy_train_key_list.txt").write_text("images/0/00/0.jpg")
    with pytest.raises(ValueError, match="noisy_train_key_list.txt to have 3 images, but got 1"):
        load_images("clothing1m", data_dir=tmp_path)
    (clothing1m / "category_names_eng.txt").unlink()
    with pytest.raises(
        FileNotFoundError, match="hold clothing1m/category_names_eng.txt, .*https://github.com/Cysu/noisy_label"
    ):
        load_images("clothing1m", data_dir=tmp_path)


def test_images_of_many_pixels_and_of_other_formats_are_refused(tmp_path, monkeypatch):
    for name in ("a.png", "a.tiff"):
        Image.new("RGB", (20, 10)).save(tmp_path / name)
    files = images.ImageFiles((tmp_path / "a.png", tmp_path / "a.tiff"), np.zeros(2, np.int64))
    assert files[0][0].shape == (3, 10, 20)
    with pytest.raises(OSError, match="Expected .*a.tiff to be an image, but got: cannot identify"):
        files[1]
    monkeypatch.setattr(images, "PIXELS", 199)
    with pytest.raises(OSError, match="Expected .*a.png to be an image, but got: 20 x 10 pixels, more than 199"):
        files[0]


def shown(tmp_path, image, suffix="png", **options):
    """Return the pixels of a picture that was written to a file and read again."""
    image.save(tmp_path / f"x.{suffix}", **options)
    files = images.ImageFiles((tmp_path / f"x.{suffix}",), np.zeros(1, np.int64))
    return files[0][0].permute(1, 2, 0).numpy()


RAMP = np.linspace(0, 1, 48).reshape(6, 8)


def test_grey_levels_of_sixteen_bits_are_those_of_eight(tmp_path):
    deep = Image.fromarray(np.rint(RAMP * 65535).astype(np.uint16))
    eight = np.rint(RAMP * 255).astype(np.uint8)
    found = shown(tmp_path, deep)
    assert (found == found[:, :, :1]).all() and np.abs(found[:, :, 0].astype(int) - eight).max() <= 1
    assert found.min() == 0 and found.max() == 255
    np.testing.assert_array_equal(images.as_rgb(deep.convert("I")), found)
    with pytest.raises(ValueError, match="grey levels from 0 to 70000, outside 0 to 65535"):
        images.as_rgb(Image.fromarray(np.array([[0, 70000]], np.int32)))


@pytest.mark.parametrize("top", [1, 255])
def test_grey_levels_of_floats_are_those_of_eight_bits(top):
    found = np.asarray(images.as_rgb(Image.fromarray((RAMP * top).astype(np.float32))))
    assert np.abs(found[:, :, 0].astype(int) - np.rint(RAMP * 255)).max() <= 1
    for wrong in (-0.5, 300.0, np.nan):
        with pytest.raises(ValueError, match="grey levels"):
            images.as_rgb(Image.fromarray(np.array([[0.5, wrong]], np.float32)))


@pytest.mark.parametrize(("ink", "ground"), [(0, 255), (90, 255), (255, 0)])
@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_a_drawing_on_a_transparent_ground_can_be_seen(ink, ground, mode, tmp_path):
    alpha = np.zeros((6, 8), np.uint8)
    alpha[2:4, 1:7] = 255
    levels = np.full((6, 8), ink, np.uint8)
    if mode == "P":  # of 256 levels, one is transparent
        levels[alpha == 0] = 7
        found = shown(tmp_path, Image.fromarray(levels).convert("P"), "png", transparency=7)
    else:
        bands = [levels] * (len(mode) - 1)
        found = shown(tmp_path, Image.fromarray(np.stack([*bands, alpha], axis=2), mode))
    np.testing.assert_array_equal(found, np.repeat(np.where(alpha, ink, ground)[:, :, None], 3, axis=2))


def test_pictures_of_the_ordinary_modes_stay_as_pillow_reads_them(tmp_path):
    colours = Image.fromarray(np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8))
    opaque = colours.convert("RGBA")
    for image in (colours, opaque, colours.convert("L"), colours.convert("P"), colours.convert("1")):
        np.testing.assert_array_equal(shown(tmp_path, image), np.asarray(image.convert("RGB")))


def test_a_picture_without_ground_is_turned_as_its_camera_says(tmp_path):
    alpha = np.zeros((8, 8), np.uint8)
    alpha[:4] = 255
    told = Image.Exif()
    told[274] = 6  # to be turned clockwise
    drawing = Image.fromarray(np.stack([np.zeros_like(alpha), alpha], axis=2), "LA")
    drawing.save(tmp_path / "x.png", exif=told)
    files = images.ImageFiles((tmp_path / "x.png",), np.zeros(1, np.int64), upright)
    found = np.asarray(files[0][0])
    assert (found[:, 4:] == 0).all() and (found[:, :4] == 255).all()


def test_what_pillow_warns_of_does_not_reach_standard_error(tmp_path):
    broken = b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01"  # a camera's record that ends in its first entry
    Image.new("RGB", (8, 6)).save(tmp_path / "x.jpg", exif=broken)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ImageOps.exif_transpose(Image.open(tmp_path / "x.jpg"))
        assert said  # of Pillow alone
        said.clear()
        images.ImageFiles((tmp_path / "x.jpg",), np.zeros(1, np.int64), upright)[0]
    assert not said
