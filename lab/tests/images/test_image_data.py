import colorsys
from dataclasses import replace

import numpy as np
import pytest
import torch
from images.tiny_images import tiny_images
from torch.nn import functional as F

from mgce.desk.files.images import ImageFiles
from mgce_lab.data.image_sets import ImageDataset, Images
from mgce_lab.images import image_data
from mgce_lab.images.image_data import (
    Batches,
    Preprocessing,
    batches_of,
    evaluation_batches,
    noisy_split,
    pixel_mean,
    resized,
    standardizing,
    training_batches,
)
from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.seeds import derived_generator


@pytest.fixture
def files(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 6, 8, 3), dtype=np.uint8)
    for number, array in enumerate(pixels):
        image.fromarray(array).save(tmp_path / f"{number}.png")
    return ImageFiles(tuple(tmp_path / f"{number}.png" for number in range(5)), np.arange(5) % 2), pixels


def numbered(n, num_classes=3):
    """Return images whose first pixel is their number."""
    images = np.zeros((n, 1, 2, 2), dtype=np.uint8)
    images[:, 0, 0, 0] = np.arange(n)
    return Images(images, np.arange(n) % num_classes)


class TestSplit:
    dataset = ImageDataset("numbered", ("a", "b", "c"), numbered(240), numbered(30))

    def test_parts_are_disjoint_and_whole(self):
        parts = noisy_split(self.dataset, noise_rate=0.0, validation_size=0.1, seed=0)
        rows = [part.images[:, 0, 0, 0] for part in (parts.train, parts.validation)]
        assert sorted(np.concatenate(rows)) == list(range(240))
        for part, row in zip((parts.train, parts.validation), rows, strict=True):
            np.testing.assert_array_equal(part.target, row % 3)
        assert np.bincount(parts.validation.target).tolist() == [8, 8, 8]

    def test_labels_are_noisy_where_the_model_learns_and_is_chosen_and_clean_where_it_is_tested(self):
        parts = noisy_split(self.dataset, noise_rate=0.4, validation_size=0.5, seed=0)
        for part in (parts.train, parts.validation):
            share = np.mean(part.target != part.images[:, 0, 0, 0] % 3)
            assert abs(share - 0.4) < 4 * (0.4 * 0.6 / 120) ** 0.5  # four standard deviations
        assert parts.test is self.dataset.test

    def test_published_validation_part_stays(self):
        published = replace(self.dataset, validation=numbered(9))
        parts = noisy_split(published, noise_rate=0.4, validation_size=0.1, seed=0)
        assert parts.validation is published.validation
        assert len(parts.train) == 240

    def test_no_validation_part(self):
        assert noisy_split(self.dataset, noise_rate=0.0, validation_size=0.0, seed=0).validation is None

    def test_seed_decides_everything(self):
        def labels(seed):
            part = noisy_split(self.dataset, noise_rate=0.4, validation_size=0.1, seed=seed).train
            return part.images[:, 0, 0, 0].tolist(), part.target.tolist()

        assert labels(1) == labels(1)
        assert labels(1) != labels(2)

    def test_files(self, files):
        part, _ = files
        dataset = ImageDataset("files", ("a", "b"), part, part)
        parts = noisy_split(dataset, noise_rate=0.0, validation_size=0.4, seed=0)
        assert sorted(parts.train.paths + parts.validation.paths) == sorted(part.paths)
        for half in (parts.train, parts.validation):
            assert [int(path.stem) % 2 for path in half.paths] == half.target.tolist()

    def test_class_that_is_too_small(self):
        dataset = ImageDataset("small", ("a", "b", "c"), numbered(3), numbered(3))
        with pytest.raises(ValueError, match="Expected `dataset` to be a data set with enough rows of every class"):
            noisy_split(dataset, noise_rate=0.0, validation_size=0.1, seed=0)


class TestBatches:
    def test_batches_hold_the_rows(self):
        part = numbered(7)
        batches = Batches(part, [[3, 1], [6]], torch.device("cpu"))
        (images, target), (last, _) = batches
        assert (images[:, 0, 0, 0].tolist(), target.tolist(), last[:, 0, 0, 0].tolist()) == ([3, 1], [0, 1], [6])
        assert (images.dtype, len(batches)) == (torch.uint8, 2)

    @pytest.mark.parametrize("world_size", [1, 2, 4])
    def test_processes_share_an_epoch_of_training(self, world_size):
        shares = [list(training_batches(60, 8, 0, rank, world_size)) for rank in range(world_size)]
        assert len({tuple(map(len, share)) for share in shares}) == 1
        assert sorted(row for share in shares for batch in share for row in batch) == list(range(60))
        assert len(shares[0][0]) == 8 // world_size

    def test_order_depends_on_seed_and_epoch(self):
        def order(seed, epoch):
            batches = training_batches(60, 8, seed, 0, 1)
            batches.sampler.set_epoch(epoch)
            return list(batches)

        assert order(0, 1) == order(0, 1)
        assert len({str(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4

    @pytest.mark.parametrize(("rows", "world_size"), [(33, 1), (33, 2), (32, 2), (17, 4), (4, 4)])
    def test_every_row_is_evaluated_once_in_as_many_batches(self, rows, world_size):
        shares = [evaluation_batches(rows, 4, rank, world_size) for rank in range(world_size)]
        assert sorted(row for share in shares for batch in share for row in batch) == list(range(rows))
        assert len({len(share) for share in shares}) == 1
        assert all(1 <= len(batch) <= 4 for share in shares for batch in share)

    def test_bad_shares(self):
        with pytest.raises(ValueError, match="Expected `batch_size` to be a multiple of the number of devices, 3"):
            training_batches(60, 8, 0, 0, 3)
        with pytest.raises(ValueError, match="Expected `dataset` to be a part with a row for each of 4 devices"):
            evaluation_batches(3, 4, 0, 4)

    def test_files_are_read_and_resized(self, files):
        part, pixels = files
        dataset = resized(ImageDataset("files", ("a", "b"), part, numbered(2)), 4)
        assert isinstance(dataset.test, Images)
        (images, target), _ = batches_of(dataset.train, [[4, 0], [1]], torch.device("cpu"), 0)
        assert (images.shape, images.dtype, target.tolist()) == ((2, 3, 4, 4), torch.uint8, [0, 0])
        # PyTorch's antialiased interpolation is the independent one; each of two passes of Pillow rounds.
        source = torch.from_numpy(pixels[[4, 0]]).permute(0, 3, 1, 2).float()
        want = F.interpolate(source, size=(4, 4), mode="bilinear", antialias=True)
        torch.testing.assert_close(images.float(), want, rtol=0, atol=1.01)


class TestMean:
    def test_of_images_in_memory(self):
        part = tiny_images().train
        want = torch.from_numpy(part.images).double().mean(0) / 255
        torch.testing.assert_close(pixel_mean(part, 0, 0).double(), want, rtol=0, atol=1e-7)

    def test_of_files(self, files, monkeypatch):
        part, pixels = files
        want = torch.from_numpy(pixels).permute(0, 3, 1, 2).double().mean(0) / 255
        torch.testing.assert_close(pixel_mean(part, 0, 0).double(), want, rtol=0, atol=1e-7)
        monkeypatch.setattr(image_data, "MEAN_ROWS", 2)
        some = pixel_mean(part, 0, 0) * 255 * 2
        pairs = [pixels[[i, j]].sum(0) for i in range(5) for j in range(i)]
        assert sum(np.allclose(some.permute(1, 2, 0), pair, atol=1e-3) for pair in pairs) == 1


class TestPreprocessing:
    settings = ImageSettings(padding=2, crop=5)
    mean = torch.rand(3, 6, 7, generator=torch.Generator().manual_seed(0))
    images = torch.randint(256, (200, 3, 6, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))

    def windows(self, image):
        """Return every crop of one padded image and of its mirror image, by loops."""
        padded = np.pad(image.numpy() / 255 - self.mean.numpy(), ((0, 0), (2, 2), (2, 2)))
        crops = {}
        for top in range(6):
            for left in range(7):
                crop = padded[:, top : top + 5, left : left + 5]
                crops[top, left, False], crops[top, left, True] = crop, crop[:, :, ::-1]
        return crops

    def test_training_images_are_all_crops_and_mirror_images(self):
        out = Preprocessing(self.mean, self.settings).augmented(self.images, derived_generator(0, "test"))
        seen = []
        for image, crop in zip(self.images, out, strict=True):
            (key,) = [key for key, window in self.windows(image).items() if np.allclose(window, crop, atol=1e-6)]
            seen.append(key)
        tops, lefts, flips = zip(*seen, strict=True)
        assert (set(tops), set(lefts)) == (set(range(6)), set(range(7)))
        assert abs(np.mean(flips) - 0.5) < 4 * (0.25 / 200) ** 0.5  # four standard deviations

    def test_test_images_are_cropped_in_the_middle(self):
        out = Preprocessing(self.mean, self.settings)(self.images)
        for image, crop in zip(self.images[:5], out, strict=False):
            np.testing.assert_allclose(crop, self.windows(image)[2, 3, False], atol=1e-6)

    def test_generator_decides_everything(self):
        preprocessing = Preprocessing(self.mean, replace(self.settings, jitter=0.3))
        first, second, third = (
            preprocessing.augmented(self.images, derived_generator(0, "test", key)) for key in (0, 0, 1)
        )
        assert torch.equal(first, second)
        assert not torch.equal(first, third)

    def test_jitter(self):
        images = torch.rand(1, 3, 2, 2, dtype=torch.float64)
        one = torch.ones(1, 1, 1, 1, dtype=torch.float64)
        torch.testing.assert_close(image_data._jittered(images, one, one, one), images)
        torch.testing.assert_close(image_data._jittered(images, 0.5 * one, one, one), images / 2)
        grey = image_data._jittered(images, one, one, 0 * one)[0, 0]
        luma = [colorsys.rgb_to_yiq(*pixel)[0] for pixel in images[0].flatten(1).T.tolist()]
        # colorsys rounds the weights of the colours to two digits.
        np.testing.assert_allclose(grey.flatten(), luma, atol=0.005)
        flat = image_data._jittered(images, one, 0 * one, one)
        torch.testing.assert_close(flat, grey.mean().expand_as(flat))

    def test_each_training_image_is_jittered_by_factors_within_the_limit(self):
        """Grey images keep their hue, so each is multiplied by its brightness alone, where it is not clipped."""
        settings = ImageSettings(standardization="channels", padding=0, crop=8, jitter=0.3, flip=False)
        grey = Preprocessing(torch.zeros(3, 8, 8), settings)
        images = torch.full((400, 3, 8, 8), 100.0)
        factors = grey.augmented(images, derived_generator(0, "test")) * 255 / 100
        assert (factors.amax((1, 2, 3)) - factors.amin((1, 2, 3))).max() < 1e-5
        of_each = factors.mean((1, 2, 3))
        assert 0.7 <= of_each.min() < 0.71 and 1.29 < of_each.max() <= 1.3
        assert of_each.std() == pytest.approx(0.6 / 12**0.5, rel=0.1)  # that of a uniform draw
        assert torch.equal(grey(images), images / 255)  # test images stay as they are

    def test_crop_that_is_too_large(self):
        with pytest.raises(
            ValueError, match=r"Expected `crop` to be at most the padded images, \(10, 11\), but got 11"
        ):
            Preprocessing(self.mean, replace(self.settings, crop=11))

    def test_channels_are_standardized(self):
        part = tiny_images().train
        settings = ImageSettings(standardization="channels", padding=0, crop=8, flip=False)
        mean, std = standardizing(part, settings, 0, 0)
        images = torch.from_numpy(part.images)
        found = Preprocessing(mean, settings, std)(images).double()
        torch.testing.assert_close(found.mean((0, 2, 3)), torch.zeros(3).double(), rtol=0, atol=1e-5)
        torch.testing.assert_close(found.std((0, 2, 3), correction=0), torch.ones(3).double(), rtol=0, atol=1e-5)
        generator = torch.Generator().manual_seed(0)
        torch.testing.assert_close(Preprocessing(mean, settings, std).augmented(images, generator).double(), found)

    def test_what_is_left_empty_is_black_where_channels_are_standardized(self):
        """As torchvision's RandomCrop and RandomRotation leave it, before Normalize."""
        mean, std = torch.tensor([0.5, 0.25, 0.1]), torch.tensor([0.2, 0.3, 0.4])
        shape = (3, 8, 8)
        settings = ImageSettings(standardization="channels", padding=1, crop=10, flip=False, rotation=0.0)
        by_channel = [values[:, None, None].expand(shape).clone() for values in (mean, std)]
        images = torch.randint(256, (4, *shape), dtype=torch.uint8)
        padded = torch.nn.functional.pad(images / 255, [1] * 4)
        want = (padded - mean[:, None, None]) / std[:, None, None]
        generator = torch.Generator().manual_seed(0)
        preprocessing = Preprocessing(by_channel[0], settings, by_channel[1])
        torch.testing.assert_close(preprocessing.augmented(images, generator), want)
        torch.testing.assert_close(preprocessing(images), want)
        turned = replace(settings, padding=0, crop=8, rotation=45.0)
        changed = Preprocessing(by_channel[0], turned, by_channel[1]).augmented(images, generator)
        black = (-mean / std)[None, :, None, None].expand_as(changed)
        corners = torch.isclose(changed, black).all(1)[:, [0, 0, -1, -1], [0, -1, 0, -1]]
        assert corners.any(1).sum() >= 2  # an angle near 0 leaves none empty
        by_pixel = replace(settings, standardization="pixel")
        assert (Preprocessing(by_channel[0], by_pixel, by_channel[1])(images)[:, :, 0] == 0).all()

    def test_rotation_turns_by_at_most_the_angle(self):
        settings = ImageSettings(padding=0, crop=33, flip=False, rotation=20.0)
        image = torch.zeros(200, 1, 33, 33, dtype=torch.uint8)
        image[:, :, 4, 16] = 255  # a spot above the centre
        changed = Preprocessing(torch.zeros(1, 33, 33), settings).augmented(image, torch.Generator().manual_seed(0))
        where = torch.nonzero(changed[:, 0] > 0).double()
        angles = torch.rad2deg(torch.atan2(where[:, 2] - 16, 16 - where[:, 1]))
        # A pixel is 1/12 of the radius, half of it 2.4 degrees; all angles occur, to both sides.
        assert -23 < angles.min() < -15 and 15 < angles.max() < 23
        assert (torch.hypot(where[:, 2] - 16, where[:, 1] - 16) - 12).abs().max() < 1
        assert len(where[:, 0].unique()) > 180  # the nearest pixel may miss the spot
