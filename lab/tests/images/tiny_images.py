"""A data set of tiny images that are easy to tell apart, and settings that train on it in a second."""

import numpy as np

from mgce_lab.data.image_sets import ImageDataset, Images
from mgce_lab.images.image_settings import ImageSettings

CLASSES = ("left", "top", "all")
SETTINGS = ImageSettings(width=8, padding=1, crop=8, epochs=4, batch_size=16, lr=0.05, milestones=(2,))


def tiny_images(n_train=120, n_test=60):
    """Return images 8 x 8 whose left half, upper half or whole is bright."""
    rng = np.random.default_rng(0)
    parts = []
    for n in (n_train, n_test):
        target = np.arange(n) % 3
        images = rng.integers(0, 100, (n, 3, 8, 8))
        # Flips are harmless to these: the bright half of the first class is its left or its right one.
        images[target == 0, :, :, :4] += 140
        images[target == 1, :, :4] += 140
        images[target == 2] += 140
        parts.append(Images(images.astype(np.uint8), target.astype(np.int64)))
    return ImageDataset("tiny", CLASSES, *parts)
