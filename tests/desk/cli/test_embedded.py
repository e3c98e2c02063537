"""Embeddings and pictures in the commands on tables: fit, review, predict and certify."""

import os
import re
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from mgce.desk.encoders import libraries
from mgce.desk.tables.model import TableModel
from mgce.features.feature_files import read_features
from tiny_encoder import WIDTH, pictures, register, tiny

FIT = ("fit", "photos", "--encoder", "tiny:net", "--quiet")


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    register(monkeypatch)


@pytest.fixture
def photos(tmp_path):
    """Forty pictures in folders of two classes; two lie in the wrong one."""
    labels = pictures(tmp_path / "photos", 40)
    for name in ("dark/004.png", "dark/010.png"):
        (tmp_path / "photos" / name).rename(tmp_path / "photos" / name.replace("dark", "light"))
    return labels


def test_a_folder_of_classes_to_a_model_and_back(mgce, tmp_path, photos):
    code, output, errors = mgce("fit", "photos", "--encoder", "tiny:net")
    assert code == 0, errors
    words = " ".join(output.split())
    assert "mgce fit photos --target label --encoder tiny:net --checked" in words
    assert "mgce predict photos.mgce NEW-PICTURES" in words
    assert "Read photos: 40 pictures in 2 folders, one for each class." in words
    assert not re.search(r"\b(frame|heads)\b|\bhead:", words + (tmp_path / "photos.html").read_text())
    assert "judged by a linear classifier that was not fitted to the row" in (tmp_path / "photos.html").read_text()
    suspects = pd.read_csv(tmp_path / "photos.suspects.csv")
    assert {*suspects["path"][:2]} == {"light/004.png", "light/010.png"}
    assert suspects["picture"][0] == f"photos/{suspects['path'][0]}"
    report = (tmp_path / "photos.html").read_text()
    shown = int((suspects["given"] != suspects["suggested"]).sum())
    assert report.count("data:image/jpeg;base64,") == min(10, shown) > 0
    assert "light/004.png: light, or dark?" in report
    model = TableModel.load(tmp_path / "photos.mgce")
    assert model.encoder == tiny().card and model.columns.width == WIDTH
    assert mgce("predict", "photos.mgce", "photos", "--encoder", "tiny:net", "--quiet", "--out", "a.csv")[0] == 0
    assert mgce("predict", "photos.mgce", "photos.features.npz", "--quiet", "--out", "b.csv")[0] == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    found = pd.read_csv(tmp_path / "a.csv").set_index("path")["prediction"]
    assert np.mean([found[path] == label for path, label in photos.items() if path in found]) > 0.9


@pytest.mark.slow
def test_the_page_of_a_review_shows_small_pictures(mgce, tmp_path, photos):
    Image.new("RGB", (900, 600)).save(tmp_path / "photos/dark/000.png")
    assert mgce(*FIT, "--out", "here/m.mgce")[0] == 0
    assert pd.read_csv(tmp_path / "here/m.suspects.csv")["picture"].str.startswith("../photos/").all()
    code, _, errors = mgce("review", "here/m.suspects.csv")
    assert code == 0, errors
    page = (tmp_path / "here/m.review.html").read_text()
    rows = int(re.search(r"(\d+) rows to review", mgce("review", "here/m.suspects.csv")[1])[1])
    assert page.count("data:image/jpeg;base64,") == rows > 0
    (tmp_path / "photos/dark/000.png").unlink()
    assert "Expected `image` to be left out where the pictures are" in mgce("review", "here/m.suspects.csv")[2]


@pytest.mark.slow
def test_labels_in_a_file_and_pictures_that_it_does_not_name(mgce, tmp_path, photos):
    table = pd.DataFrame({"photo": [*photos], "kind": [*photos.values()]})
    table["photo"] = table["photo"].where(~table["photo"].isin(["dark/004.png", "dark/010.png"]), "light/001.png")
    table = table.drop_duplicates("photo").sample(frac=1, random_state=0)
    table.to_csv(tmp_path / "labels.csv", index=False)
    arguments = ("fit", "photos", "--target-file", "labels.csv", "--target", "kind", "--encoder", "tiny:net")
    code, output, errors = mgce(*arguments)
    assert code == 0, errors
    assert "Note: 2 of the 40 embeddings belong to no row of the table." in output
    assert "--target-file labels.csv" in output and pd.read_csv(tmp_path / "photos.suspects.csv")["photo"].is_unique
    features = tmp_path / "photos.features.npz"
    before = features.stat().st_mtime_ns
    assert mgce(*arguments, "--quiet")[0] == 0 and features.stat().st_mtime_ns == before  # not encoded again


@pytest.mark.slow
def test_decisions_mend_the_labels_of_a_folder(mgce, tmp_path, photos):
    assert mgce(*FIT)[0] == 0
    suspects = pd.read_csv(tmp_path / "photos.suspects.csv", dtype=str)
    row = suspects.iloc[0]
    decided = {"key": row["key"], "name": row["path"], "line": "", "given": row["given"], "decision": "suggestion"}
    decided |= {"label": row["alternative"], "source": "suspect", "draw": row["draw"]}
    decided |= {"draw_probability": row["draw_probability"]}
    from mgce.desk.review.decision_file import COLUMNS

    pd.DataFrame([dict(zip(COLUMNS, decided.values(), strict=True))]).to_csv(tmp_path / "d.csv", index=False)
    code, _, errors = mgce(*FIT, "--checked", "d.csv", "--mended", "mended.csv")
    assert code == 0, errors
    mended = pd.read_csv(tmp_path / "mended.csv")
    assert list(mended.columns) == ["path", "label"] and len(mended) == 40
    assert mended.set_index("path")["label"][row["path"]] == row["alternative"]


@pytest.fixture
def texts(mgce, tmp_path):
    """A table of texts, and their features in a file."""
    rng = np.random.default_rng(0)
    kinds = rng.choice(["short", "long"], 60)
    said = ["".join(rng.choice([*"abcdef"], 3 if kind == "short" else 30)) for kind in kinds]
    frame = pd.DataFrame({"key": [f"t{i:02d}" for i in range(60)], "said": said, "kind": kinds})
    frame.to_csv(tmp_path / "all.csv", index=False)
    frame[:40].to_csv(tmp_path / "t.csv", index=False)
    frame[40:].to_csv(tmp_path / "new.csv", index=False)
    embed = ("embed", "all.csv", "--column", "said", "--id", "key", "--encoder", "tiny:net", "--quiet")
    assert mgce(*embed, "--out", "x.parquet")[0] == 0
    return SimpleNamespace(frame=frame, fit=("fit", "t.csv", "--target", "kind", "--embeddings", "x.parquet"))


def test_features_beside_a_table_of_texts(mgce, tmp_path, texts):
    code, output, errors = mgce(*texts.fit)
    assert code == 0, errors
    words = " ".join(output.split())
    assert "20 of the 60 embeddings belong to no row of the table." in words
    assert "The embeddings alone are learnt from, not the columns beside them: said." in words
    assert "mgce fit t.csv --target kind --embeddings x.parquet --checked" in words
    assert "mgce predict t.mgce NEW.npz" in words
    assert mgce("predict", "t.mgce", "new.csv", "--embeddings", "x.parquet", "--quiet")[0] == 0
    predicted = pd.read_csv(tmp_path / "new-predictions.csv")
    assert predicted["key"].tolist() == texts.frame["key"][40:].tolist()
    assert (predicted["prediction"].to_numpy() == texts.frame["kind"][40:].to_numpy()).mean() > 0.8
    assert mgce("predict", "t.mgce", "x.parquet", "--quiet", "--out", "p.csv")[0] == 0
    assert len(pd.read_csv(tmp_path / "p.csv")) == 60
    code, output, errors = mgce("certify", "t.mgce", "new.csv", "--embeddings", "x.parquet")
    assert code == 0 and "over n = 20 examples" in " ".join(output.split()), errors


@pytest.mark.slow
def test_features_of_another_encoder_or_width_are_refused(mgce, refuses, tmp_path, texts, monkeypatch):
    assert mgce(*texts.fit, "--quiet")[0] == 0
    np.save(tmp_path / "narrow.npy", np.ones((20, 3), np.float32))
    refuses("features of 6 numbers, as the model has them, but got '3'", "predict", "t.mgce", "narrow.npy")
    np.save(tmp_path / "unknown.npy", read_features(tmp_path / "x.parquet").values)
    assert mgce("predict", "t.mgce", "unknown.npy", "--quiet", "--out", "u.csv")[0] == 0  # nothing is known of it
    register(monkeypatch, seed=1)
    embed = ("embed", "new.csv", "--column", "said", "--encoder", "tiny:net", "--quiet", "--out", "other.npz")
    assert mgce(*embed)[0] == 0
    refuses("features by the encoder of the model, tiny:net with the weights", "predict", "t.mgce", "other.npz")


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("fit", "t.csv"), "Expected `target` to be the name of the column with the labels, but got none. Add"),
        (("fit", "photos", "--target-file", "t.csv"), "Expected `target` to be the name of the column with the labels"),
        (("fit", "t.csv", "--target", "kind", "--encoder", "tiny:net"), "given with a folder of pictures"),
        (("fit", "t.csv", "--target", "kind", "--target-file", "t.csv"), "given with a folder of pictures"),
        (("fit", "photos", "--embeddings", "x.npy"), "left out for a folder of pictures"),
        (("fit", "photos/dark"), "one where 000.png lies in no such folder"),
        (("fit", "t.csv", "--target", "kind", "--embeddings", "none.npy"), "the path of a file that exists"),
        (("fit", "t.csv", "--target", "kind", "--embeddings", "short.npy"), "for each of the 40 rows of the table"),
    ],
)
def test_what_does_not_go_together_is_said_in_one_sentence(refuses, tmp_path, photos, arguments, sentence):
    pd.DataFrame({"key": range(40), "kind": ["a", "b"] * 20}).to_csv(tmp_path / "t.csv", index=False)
    np.save(tmp_path / "short.npy", np.ones((39, 3), np.float32))
    refuses(sentence, *arguments)


def test_an_encoder_that_a_model_names_is_not_loaded_unless_it_is_asked_for(mgce, refuses, photos, monkeypatch):
    """The file may come from anybody: its name of an encoder is never loaded by itself."""
    assert mgce(*FIT)[0] == 0
    asked = []
    monkeypatch.setitem(libraries.LOADERS, "tiny", lambda *given: asked.append(given))
    monkeypatch.setitem(libraries.LOADERS, libraries.BUILT_IN, lambda source, kind, device, dtype: tiny(kind, 1))
    refuses("features by the encoder of the model, tiny:net", "predict", "photos.mgce", "photos")
    assert not asked


def test_a_damaged_picture_and_one_without_a_name_are_left_out_and_said(mgce, tmp_path, photos):
    (tmp_path / "photos/dark/000.png").write_bytes(b"no picture")
    shutil.copy(tmp_path / "photos/dark/002.png", os.fsencode(tmp_path / "photos/dark") + b"/\xe9.png")
    said = (
        "Note: 1 of the 41 pictures has a name that is no UTF-8, and was left out (dark/\\xe9.png, for one).",
        "Note: 1 of the 40 pictures could not be read and was left out: dark/000.png.",
    )
    for command in (("fit", "photos"), ("embed", "photos", "--out", "x.npz"), ("predict", "photos.mgce", "photos")):
        code, output, errors = mgce(*command, "--encoder", "tiny:net")
        assert code == 0, errors
        assert all(note in " ".join(output.split()) for note in said), (command, output)
    assert "39 pictures by" in " ".join(mgce("embed", "photos", "--out", "x.npz", "--encoder", "tiny:net")[1].split())
    assert len(pd.read_csv(tmp_path / "photos-predictions.csv")) == 39
    pd.Series(photos).rename_axis("path").reset_index(name="kind").to_csv(tmp_path / "labels.csv", index=False)
    code, _, errors = mgce(*FIT, "--target", "kind", "--target-file", "labels.csv")
    assert code == 2 and "a table of pictures that can be read in photos" in errors
