"""`mgce embed`: a folder or a table to a file of features, in parts if asked."""

import numpy as np
import pandas as pd
import pytest
import torch

from mgce.features.feature_files import read_features
from tiny_encoder import WIDTH, pictures, register, tiny


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    register(monkeypatch)


def test_a_folder_of_pictures(mgce, tmp_path):
    pictures(tmp_path / "photos")
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        code, output, errors = mgce("embed", "photos", "--encoder", "tiny:net", "--out", "x.npz", "--threads", 1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    assert (code, errors) == (0, "")
    assert (
        f"20 pictures by tiny:net, weights {tiny().card.checksum[:12]}: {WIDTH} features each are in x.npz." in output
    )
    assert read_features(tmp_path / "x.npz").values.shape == (20, WIDTH)
    assert "They were there already." in mgce("embed", "photos", "--encoder", "tiny:net", "--out", "x.npz")[1]


def test_shards_are_the_whole(mgce, tmp_path):
    pictures(tmp_path / "photos")
    common = ["embed", "photos", "--encoder", "tiny:net", "--quiet", "--out", "x.npy"]
    assert mgce(*common) == (0, "", "")
    for number in (1, 2, 3):
        assert mgce(*common, "--shard", f"{number}/3") == (0, "", "")
    parts = [read_features(tmp_path / f"x-{number}-of-3.npy") for number in (1, 2, 3)]
    whole = read_features(tmp_path / "x.npy")
    np.testing.assert_allclose(np.concatenate([one.values for one in parts]), whole.values, rtol=1e-5, atol=1e-6)
    assert np.concatenate([one.names for one in parts]).tolist() == whole.names.tolist()


def test_a_table_of_texts(mgce, tmp_path):
    frame = pd.DataFrame({"key": ["007", "008"], "said": ["7", "good bye"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    arguments = ["--column", "said", "--id", "key", "--encoder", "tiny:net", "--half", "--out", "x.parquet"]
    code, output, _ = mgce("embed", "t.csv", *arguments)
    assert code == 0 and "2 texts by tiny:net" in output
    found = read_features(tmp_path / "x.parquet")
    assert found.names.tolist() == ["007", "008"] and found.values.dtype == np.float16
    np.testing.assert_allclose(found.values, tiny("texts").encode(["7", "good bye"]), rtol=1e-3)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("t.csv", "--out", "x.npy"), "Expected `column` to be a column of the table"),
        (("t.csv", "--column", "sad", "--out", "x.npy"), "Did you mean 'said'?"),
        (("t.csv", "--column", "said", "--out", "x.csv"), "(.npy, .npz, .parquet, .safetensors)"),
        (("photos", "--column", "said", "--out", "x.npy"), "left out for a folder of pictures"),
        (("photos", "--out", "x.npy", "--shard", "4/3"), "such as 1/8 to 8/8"),
        (("photos", "--out", "x.npy", "--shard", "1/9"), "of no more parts than there are rows"),
        (("photos", "--out", "x.npy", "--encoder", "tidy"), "Expected `encoder` to be efficientnet-lite0"),
        (("t.csv", "--column", "said", "--out", "x.npy", "--encoder", "efficientnet-lite0"), "which encodes pictures"),
        (("photos", "--out", "x.npy", "--batch", "0"), "Expected `batch`"),
        (("photos", "--out", "x.npy", "--threads", "0"), "Expected `threads` to be an integer of at least 1"),
        (("photos", "--out", "x.npy", "--device", "abacus"), "Expected `device`"),
    ],
)
def test_what_cannot_be_encoded_is_said_in_one_sentence(refuses, tmp_path, arguments, sentence):
    pictures(tmp_path / "photos", 2)
    pd.DataFrame({"key": [1, 2], "said": ["a", "b"]}).to_csv(tmp_path / "t.csv", index=False)
    refuses(sentence, "embed", *arguments)
