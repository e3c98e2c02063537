"""Turn texts into numbers for their meaning, by the built-in encoder; each text is encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from mgce._validation import expected
from mgce.desk.encoders.encoder import Encoder
from mgce.desk.encoders.libraries import BUILT_IN_TEXTS, TEXT_WIDTH, load_encoder, text_folder
from mgce.features.card import SHOWN, TEXTS

BATCH = 64  # texts that go through the network together; more take no less time on a processor
# Numbers are rounded to this many digits: the last digits of float32 depend on the other texts of a batch, and the
# prediction of a row must not.
DIGITS = 5
# Texts whose features are kept, 150 MB: a fit reads each of them several times.
KEPT = 100_000
_kept: dict[str, NDArray[np.float32]] = {}


def is_installed() -> bool:
    """Return whether the built-in encoder of texts can be loaded."""
    return text_folder() is not None


@cache
def encoder() -> Encoder:
    """Return the built-in encoder of texts.

    Raises:
        ValueError: if it is not installed, or its files are not the known ones.
    """
    try:
        return load_encoder(BUILT_IN_TEXTS, TEXTS)
    except ImportError as error:  # what a model file needs is an input, told in one sentence
        raise ValueError(str(error)) from error


def meaning(texts: Sequence[str], checksum: str) -> NDArray[np.float32]:
    """Return the features of n texts, each of unit length, shape (n, 384), float32; zeros for an empty text.

    The encoder is loaded if some text is not empty.

    Args:
        texts: the texts.
        checksum: of the weights of the encoder that a model was fitted with.

    Raises:
        ValueError: if the encoder is not installed, or the installed one has other weights.
    """
    # By length, so that a batch has little padding.
    new = sorted({text for text in texts if text and text not in _kept}, key=lambda text: (len(text), text))
    found = {"": np.zeros(TEXT_WIDTH, np.float32)}
    if any(texts) and encoder().card.checksum != checksum:  # also where all texts are kept: from other weights
        wanted = f"one with the weights {checksum[:SHOWN]}, with which the model was fitted"
        raise ValueError(expected("encoder", wanted, encoder().card.checksum[:SHOWN]))
    for start in range(0, len(new), BATCH):
        part = new[start : start + BATCH]
        found.update(zip(part, encoder().encode(part).round(DIGITS), strict=True))
    known = found | {text: _kept[text] for text in {*texts} - found.keys()}
    if len(_kept) + len(found) > KEPT:
        _kept.clear()
    _kept.update(list(found.items())[:KEPT])
    return np.stack([known[text] for text in texts]) if len(texts) else np.zeros((0, TEXT_WIDTH), np.float32)
