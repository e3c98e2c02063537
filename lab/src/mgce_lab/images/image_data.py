"""Prepare images for training: noisy labels, a validation split, batches, standardization and augmentation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

from mgce import noise
from mgce._messages import expected
from mgce._seeds import derived_seed
from mgce.desk.files.images import ImageFiles
from mgce.labels.out_of_fold import stratified_split
from mgce_lab.data.image_sets import ImageDataset, Images
from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.seeds import derived_generator

# Images in files that the mean of each pixel is taken over. The standard deviation of a pixel in [0, 1] is at most 1/2,
# so the standard error of its mean is at most 0.5 / sqrt(10,000) = 0.005, about one step of 8-bit colour.
MEAN_ROWS = 10_000
READ_AT_ONCE = 128  # of these, so that the memory of one batch suffices
LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601: the grey of red, green and blue


def noisy_split(dataset: ImageDataset, *, noise_rate: float, validation_size: float, seed: int) -> ImageDataset:
    """Corrupt training labels by symmetric noise, and then hold out a fraction of the training images for validation.

    So validation labels are as noisy as training labels. Test labels are not changed. If the data set has a published
    validation part, it is used unchanged, and nothing is held out.

    Args:
        dataset: images with their published labels.
        noise_rate: fraction of labels to corrupt, in [0, 1].
        validation_size: fraction of the training images to hold out, stratified by the published labels.
        seed: seed of the noise and of the split.

    Raises:
        ValueError: if a class has too few images to be split.
    """
    transition = noise.symmetric(len(dataset.classes), noise_rate)
    clean = torch.from_numpy(dataset.train.target)
    labels = noise.corrupt(clean, transition, derived_generator(seed, "noise")).labels.numpy()
    rows = np.arange(len(labels))
    if dataset.validation is not None or validation_size == 0:
        return replace(dataset, train=_select(dataset.train, rows, labels))
    parts = stratified_split(rows, dataset.train.target, validation_size, derived_seed(seed, "split"), dataset.name)
    train, validation = (_select(dataset.train, np.sort(part), labels) for part in parts)
    return replace(dataset, train=train, validation=validation)


def _select(part: Images | ImageFiles, rows: NDArray[np.int64], labels: NDArray[np.int64]) -> Images | ImageFiles:
    if isinstance(part, Images):
        return Images(part.images[rows], labels[rows])
    return replace(part, paths=tuple(part.paths[row] for row in rows), target=labels[rows])


class RowBatches(Protocol):
    """An iterable of batches, each a list of row numbers, with a length."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[list[int]]: ...


class Batches:
    """An iterable of batches from images that are all stored on one device.

    A batch is a pair: b uint8 images (b, channels, height, width) and their class indices (b,).

    Args:
        part: the images.
        batch_sampler: the row numbers of each batch. If it has a sampler, Lightning passes the number of the epoch
            to this sampler.
        device: the device that stores all images.
    """

    def __init__(self, part: Images, batch_sampler: RowBatches, device: torch.device) -> None:
        self.images = torch.from_numpy(part.images).to(device)
        self.target = torch.from_numpy(part.target).to(device)
        self.batch_sampler = batch_sampler

    def __len__(self) -> int:
        return len(self.batch_sampler)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        batches = list(self.batch_sampler)
        # One copy for the epoch: each copy that starts on the host waits for all that the device has still to do.
        order = torch.as_tensor([row for rows in batches for row in rows], device=self.images.device)
        for index in torch.split(order, [len(rows) for rows in batches]):
            yield self.images[index], self.target[index]


class Resize:
    """Turn a PIL image into a uint8 tensor of shape (3, size, size)."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, image: Any) -> Tensor:
        """Resize an image by PIL's bilinear filter (number 2), which averages all pixels that a new pixel covers."""
        pixels = np.asarray(image.resize((self.size, self.size), resample=2)).copy()
        return torch.from_numpy(pixels).permute(2, 0, 1)


def resized(dataset: ImageDataset, size: int) -> ImageDataset:
    """Return the data set with images in files resized when they are read; images in memory are not resized."""
    parts = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    files = {name: part for name, part in parts.items() if isinstance(part, ImageFiles)}
    changed: dict[str, Any] = {name: replace(part, transform=Resize(size)) for name, part in files.items()}
    return replace(dataset, **changed)


def batches_of(
    part: Images | ImageFiles, batch_sampler: RowBatches, device: torch.device, num_workers: int
) -> Batches | DataLoader[Any]:
    """Return the batches of a set of images, from device memory, or read from files by worker processes."""
    if isinstance(part, Images):
        return Batches(part, batch_sampler, device)
    return DataLoader(
        part,
        batch_sampler=batch_sampler,
        num_workers=num_workers,
        pin_memory=device.type == "cuda",
        persistent_workers=num_workers > 0,
    )


def training_batches(rows: int, batch_size: int, seed: int, rank: int, world_size: int) -> BatchSampler:
    """Return the row numbers of each training batch for process `rank` of `world_size`.

    Seed and epoch determine the order of the rows. All processes make equally many steps, since their gradients are
    averaged. For this, up to world_size - 1 rows are used twice in an epoch.

    Raises:
        ValueError: if `batch_size` is not a multiple of `world_size`.
    """
    if batch_size % world_size:
        raise ValueError(expected("batch_size", f"a multiple of the number of devices, {world_size}", batch_size))
    numbers: Any = range(rows)  # a data set of which nothing but the length is asked
    sampler = DistributedSampler[int](numbers, world_size, rank, shuffle=True, seed=derived_seed(seed, "order"))
    return BatchSampler(sampler, batch_size // world_size, drop_last=False)


def evaluation_batches(rows: int, batch_size: int, rank: int, world_size: int) -> list[list[int]]:
    """Return the row numbers of each evaluation batch for process `rank` of `world_size`.

    Together the processes evaluate every row exactly once, in equally many batches each.

    Raises:
        ValueError: if there are fewer rows than processes.
    """
    if rows < world_size:
        raise ValueError(expected("dataset", f"a part with a row for each of {world_size} devices", rows))
    count = -(-rows // (world_size * batch_size))
    return [batch.tolist() for batch in np.array_split(np.arange(rank, rows, world_size), count)]


def pixel_mean(part: Images | ImageFiles, seed: int, num_workers: int) -> Tensor:
    """Return the mean of each pixel and channel, shape (channels, height, width), in [0, 1].

    For images in files the mean is computed from `MEAN_ROWS` random images.
    """
    if isinstance(part, Images):
        return torch.from_numpy(part.images.mean(0, dtype=np.float64) / 255).float()
    rows = torch.randperm(len(part), generator=derived_generator(seed, "mean"))[:MEAN_ROWS].tolist()
    batches = [rows[start : start + READ_AT_ONCE] for start in range(0, len(rows), READ_AT_ONCE)]
    images = batches_of(part, batches, torch.device("cpu"), num_workers)
    total = sum(batch.double().sum(0) for batch, _ in images)
    assert isinstance(total, Tensor)
    return (total / (255 * len(rows))).float()


def standardizing(
    part: Images | ImageFiles, settings: ImageSettings, seed: int, num_workers: int
) -> tuple[Tensor, Tensor]:
    """Return the mean and the standard deviation with which images are standardized, (channels, height, width).

    `settings.standardization` selects the mean of each pixel, with standard deviation 1, or mean and standard deviation
    of each channel.

    Raises:
        ValueError: if the settings ask for standardization by channel, and the images are in files.
    """
    if settings.standardization == "pixel":
        mean = pixel_mean(part, seed, num_workers)
        return mean, torch.ones_like(mean)
    if not isinstance(part, Images):
        raise ValueError(expected("standardization", "'pixel' for images in files", settings.standardization))
    pixels = part.images.astype(np.float32) / 255
    means, stds = pixels.mean((0, 2, 3), dtype=np.float64), pixels.std((0, 2, 3), dtype=np.float64)
    shape = part.images.shape[1:]
    mean, std = (torch.from_numpy(values).float()[:, None, None].expand(shape).clone() for values in (means, stds))
    return mean, std


class Preprocessing(nn.Module):
    """Turn uint8 images into inputs of a network: scaled to [0, 1], standardized and cropped.

    Padding and rotation leave empty pixels. Empty pixels get the mean image if the mean of each pixel is subtracted, as
    in He et al. Empty pixels are black if channels are standardized, as in the published code of the robust losses.

    Args:
        mean: array subtracted from the images in [0, 1], (channels, height, width); a buffer.
        settings: the settings; only `standardization`, `padding`, `crop`, `flip`, `rotation` and `jitter` are used.
        std: array of the same shape by which the images are then divided; None means ones; a buffer.

    Example:
        >>> mean = torch.full((1, 3, 3), 0.5)
        >>> Preprocessing(mean, ImageSettings(padding=1, crop=5))(torch.full((1, 1, 3, 3), 255, dtype=torch.uint8))
        tensor([[[[0.0000, 0.0000, 0.0000, 0.0000, 0.0000],
                  [0.0000, 0.5000, 0.5000, 0.5000, 0.0000],
                  [0.0000, 0.5000, 0.5000, 0.5000, 0.0000],
                  [0.0000, 0.5000, 0.5000, 0.5000, 0.0000],
                  [0.0000, 0.0000, 0.0000, 0.0000, 0.0000]]]])

    Reference: paper, section 5.1; He et al., CVPR 2016, section 4.2.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, settings: ImageSettings, std: Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", torch.ones_like(mean) if std is None else std)
        self.padding, self.crop, self.jitter = settings.padding, settings.crop, settings.jitter
        self.flip, self.rotation = settings.flip, settings.rotation
        self.by_channel = settings.standardization == "channels"
        # How many pixels the crop can be moved down, and to the right.
        self.room = (mean.shape[1] + 2 * self.padding - self.crop, mean.shape[2] + 2 * self.padding - self.crop)
        if min(self.room) < 0:
            what = f"at most the padded images, {tuple(side + 2 * self.padding for side in mean.shape[1:])}"
            raise ValueError(expected("crop", what, self.crop))

    def forward(self, images: Tensor) -> Tensor:
        """Map b images of c channels, (b, c, height, width), to their central crops (b, c, crop, crop)."""
        top, left = (torch.full((len(images),), room // 2, device=images.device) for room in self.room)
        return self.placed(images, torch.stack([top, left, torch.zeros_like(top)]))

    def augmented(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Map b images of c channels to random crops (b, c, crop, crop), randomly flipped, rotated and recoloured."""
        b, device = len(images), images.device
        places = _without_waiting(self.places(b, generator), device)
        pixels = images / 255
        if self.jitter > 0:
            factors = 1 + self.jitter * (2 * torch.rand(3, b, 1, 1, 1, generator=generator) - 1)
            pixels = _jittered(pixels, *_without_waiting(factors, device))
        angle = None
        if self.rotation > 0:
            degrees = self.rotation * (2 * torch.rand(b, generator=generator) - 1)
            angle = _without_waiting(torch.deg2rad(degrees), device)
        return self._changed(pixels, places, angle)

    def places(self, b: int, generator: torch.Generator) -> Tensor:
        """Draw top edge, left edge and flip (1 or 0) of the random crops of b images: int64, shape (3, b)."""
        top, left = (torch.randint(room + 1, (b,), generator=generator) for room in self.room)
        flip = torch.rand(b, generator=generator) < 0.5 * self.flip
        return torch.stack([top, left, flip.long()])

    def placed(self, images: Tensor, places: Tensor) -> Tensor:
        """Map b images to the crops with the edges and flips in `places`, without rotation or change of colours."""
        return self._changed(images / 255, places)

    def _changed(self, pixels: Tensor, places: Tensor, angle: Tensor | None = None) -> Tensor:
        """Standardize, crop, flip and rotate images with values in [0, 1].

        Standardization by pixel comes first, standardization by channel last.
        """
        if not self.by_channel:
            pixels = (pixels - self.mean) / self.std
        pixels = self._cropped(pixels, places)
        if angle is not None:
            pixels = _rotated(pixels, angle)
        if self.by_channel:  # one number for all pixels of a channel
            pixels = (pixels - self.mean[:, :1, :1]) / self.std[:, :1, :1]
        return pixels

    def _cropped(self, images: Tensor, places: Tensor) -> Tensor:
        top, left, flip = places
        if self.room == (0, 0) and not self.padding and not self.flip:
            return images
        padded = F.pad(images, [self.padding] * 4)
        offsets = torch.arange(self.crop, device=images.device)
        rows, columns = top[:, None] + offsets, left[:, None] + offsets
        columns = torch.where(flip[:, None].bool(), columns.flip(1), columns)
        # One gather of indices that broadcast to (b, c, crop, crop).
        image = torch.arange(len(images), device=images.device)[:, None, None, None]
        channel = torch.arange(images.shape[1], device=images.device)[:, None, None]
        return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


def _without_waiting(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device; a copy to a GPU is asynchronous, from pinned memory."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def _rotated(images: Tensor, angle: Tensor) -> Tensor:
    """Rotate b square images counterclockwise, each by its own angle in radians; `angle` has shape (b,)."""
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    matrix = torch.stack([torch.stack([cos, -sin, zero], 1), torch.stack([sin, cos, zero], 1)], 1)
    shape = [len(images), images.shape[1], *images.shape[2:]]
    grid = F.affine_grid(matrix.to(images.dtype), shape, align_corners=False)
    return F.grid_sample(images, grid, mode="nearest", align_corners=False)


def _jittered(images: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor) -> Tensor:
    """Change the colours of b images (b, 3, height, width) in [0, 1] by three factors of shape (b, 1, 1, 1).

    The factors are applied one after the other. A factor below 1 moves every pixel towards a reference colour, a
    factor above 1 away from it. The reference is black for brightness, the mean grey of the image for contrast, and
    the grey of the pixel itself for saturation.
    """
    luma = images.new_tensor(LUMA)[:, None, None]
    images = (images * brightness).clamp(0, 1)
    mean = (images * luma).sum(1, keepdim=True).mean((2, 3), keepdim=True)
    images = (mean + contrast * (images - mean)).clamp(0, 1)
    grey = (images * luma).sum(1, keepdim=True)
    return (grey + saturation * (images - grey)).clamp(0, 1)
