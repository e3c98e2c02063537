"""A card tells features of one encoder from those of another."""

from dataclasses import replace

import pytest
import torch

from mgce.features.feature_files import Card, checksum_of
from tiny_encoder import tiny

CARD = Card("tiny:net", "pictures", "ab" * 32, "4 x 4", 6)


def test_a_card_survives_json():
    import json

    assert Card.from_dict(json.loads(CARD.to_json())) == CARD


@pytest.mark.parametrize("field, value", [("kind", "sounds"), ("width", 0), ("width", "6"), ("name", None)])
def test_what_is_no_card_is_refused(field, value):
    import json

    with pytest.raises(ValueError, match="Expected `encoder` to be the card of an encoder"):
        Card.from_dict({**json.loads(CARD.to_json()), field: value})


def test_features_of_other_weights_or_another_preprocessing_are_refused():
    CARD.require(None)
    CARD.require(replace(CARD, name="a copy"))
    with pytest.raises(ValueError, match="tiny:net with the weights abababababab, but got 'other with the weights cdc"):
        CARD.require(replace(CARD, name="other", checksum="cd" * 32))
    with pytest.raises(ValueError, match=r"with this preprocessing: 4 x 4, but got .*: 8 x 8"):
        CARD.require(replace(CARD, preprocessing="8 x 8"))


def test_a_checksum_is_that_of_names_types_and_numbers():
    first, second = (torch.nn.Linear(3, 2) for _ in range(2))
    assert checksum_of(first) != checksum_of(second)
    second.load_state_dict(first.state_dict())
    assert checksum_of(first) == checksum_of(second) != checksum_of(second.half())
    assert checksum_of(torch.nn.Sequential(first)) != checksum_of(first)
    assert tiny().card.checksum == tiny().card.checksum != tiny(seed=1).card.checksum
