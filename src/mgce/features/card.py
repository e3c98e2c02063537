"""The card of an encoder: what has to be equal for two files of features to hold numbers of one kind."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from mgce._validation import expected

PICTURES, TEXTS = "pictures", "texts"
KINDS = (PICTURES, TEXTS)
SHOWN = 12  # characters of a checksum in a sentence: enough to tell two apart
MOST_TEXT = 10_000  # characters of each field: a card that is longer was not written by this package


@dataclass(frozen=True)
class Card:
    """What a file of features says of the encoder that made them.

    Attributes:
        name: of the encoder, as `--encoder` takes it; of a local folder, its last part.
        kind: what it encodes, one of `KINDS`.
        checksum: SHA-256 of its weights: see :func:`checksum_of`.
        preprocessing: what is done to a picture or a text before, and to the output of the network behind, in words.
        width: the number of features.
    """

    name: str
    kind: str
    checksum: str
    preprocessing: str
    width: int

    def to_json(self) -> str:
        """Return the card as one line of JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Card:
        """Build a card from the fields that :meth:`to_json` writes.

        Raises:
            ValueError: if they are no card.
        """
        texts = [fields.get(name) for name in ("name", "kind", "checksum", "preprocessing")]
        width = fields.get("width")
        sound = all(isinstance(text, str) and len(text) <= MOST_TEXT for text in texts)
        if not sound or fields["kind"] not in KINDS or not isinstance(width, int) or width < 1:
            raise ValueError(expected("encoder", "the card of an encoder", dict(fields)))
        name, kind, checksum, preprocessing = map(str, texts)
        return cls(name, kind, checksum, preprocessing, width)

    def require(self, other: Card | None) -> None:
        """Require features to come from this encoder, with its weights and its preprocessing.

        Features of which nothing is known pass: only their width can be compared.

        Raises:
            ValueError: if they are of another one.
        """
        if other is None or (other.checksum, other.preprocessing) == (self.checksum, self.preprocessing):
            return
        if other.checksum != self.checksum:
            wanted, got = (f"{card.name} with the weights {card.checksum[:SHOWN]}" for card in (self, other))
        else:
            wanted, got = (f"{card.name} with this preprocessing: {card.preprocessing}" for card in (self, other))
        raise ValueError(expected("embeddings", f"features by the encoder of the model, {wanted}", got))


def checksum_of(model: torch.nn.Module) -> str:
    """Return the SHA-256 hash of a network's weights and buffers, with their names, whatever file they came from.

    Example:
        >>> layer = torch.nn.Linear(2, 1)
        >>> _ = [torch.nn.init.zeros_(weight) for weight in layer.parameters()]
        >>> checksum_of(layer)[:12]
        '3a5ba2bb869b'
    """
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        raw = value.detach().cpu().contiguous()
        digest.update(f"{name} {raw.dtype} {tuple(raw.shape)}\n".encode())
        digest.update(raw.reshape(-1).view(torch.uint8).numpy().tobytes() if raw.numel() else b"")
    return digest.hexdigest()
