"""`mgce-lab train`: folders and arrays to a network, and to suspects that a person reviews."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from mgce.loop.recipes import RECIPES
from mgce_lab.cli.labelled_images import read_arrays, read_folder
from mgce_lab.images.image_model import load_image_model
from tiny_encoder import pictures, register

pytestmark = pytest.mark.usefixtures("two_recipes")
QUICK = ("--epochs", "1", "--folds", "2")


@pytest.fixture
def arrays(tmp_path):
    """Forty grey images of two kinds, and their labels as numbers; one has no label."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 120, (40, 6, 7), dtype=np.uint8), (np.arange(40) % 2).astype(float)
    x[y == 1, 3:] += 100
    y[39] = np.nan
    np.savez(tmp_path / "a.npz", x=x, y=y)
    return x


def test_arrays_to_a_network_and_suspects(mgce, tmp_path, arrays):
    code, output, errors = mgce("train", "a.npz", *QUICK, "--json", "a.json", "--threads", 1)
    assert code == 0, errors
    words = " ".join(output.split())
    assert "Read a.npz: 39 images of 2 classes, 6 x 6 pixels, grey." in words
    assert "is chosen: no other recipe predicts more validation labels." in words
    assert "Note: 1 row has no label and was left out." in words
    assert words.endswith("Do this next: mgce review a.suspects.csv")
    model = load_image_model(tmp_path / "a.pt")
    assert model.classes == ("0", "1") and set(model.predict(arrays)) <= {"0", "1"}
    suspects = pd.read_csv(tmp_path / "a.suspects.csv")
    assert sorted(suspects["row"]) == list(range(1, 40)) and set(suspects["given"]) == {0, 1}
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["chosen"] in found["recipes"] and [*found["recipes"]] == [*RECIPES]
    assert found["files"] == ["a.pt", "a.svg", "a.suspects.csv"] and found["validation_rows"] == 8
    assert mgce("review", "a.suspects.csv", "--quiet") == (0, "", "")


def test_each_image_keeps_its_label(tmp_path, arrays):
    y = np.arange(40).astype(str)
    np.savez(tmp_path / "n.npz", x=arrays, y=np.where(np.arange(40) == 3, np.nan, np.arange(40)))
    np.savez(tmp_path / "t.npz", x=arrays, y=np.char.encode(y))
    numbers, texts = (read_arrays(tmp_path / name, None) for name in ("n.npz", "t.npz"))
    left = [*range(3), *range(4, 40)]
    assert numbers.labels == [str(row) for row in left] and texts.labels == y.tolist()
    np.testing.assert_array_equal(texts.pixels[:, 0], arrays[:, :, :6])
    np.testing.assert_array_equal(numbers.pixels, texts.pixels[left])


def test_a_folder_of_classes_to_a_review_with_pictures(mgce, tmp_path):
    pictures(tmp_path / "photos", 30)
    code, output, errors = mgce("train", "photos", *QUICK, "--size", 6, "--out", "here/m.pt")
    assert code == 0, errors
    assert "6 x 6 pixels, in colour, shifted and mirrored at random." in " ".join(output.split())
    suspects = pd.read_csv(tmp_path / "here/m.suspects.csv")
    assert len(suspects) == 30 and suspects["picture"][0] == f"../photos/{suspects['path'][0]}"
    assert mgce("review", "here/m.suspects.csv", "--quiet")[0] == 0
    assert "data:image/" in (tmp_path / "here/m.review.html").read_text()


def test_labels_in_a_table_and_pictures_that_it_does_not_name(mgce, tmp_path):
    labels = pictures(tmp_path / "photos", 30)
    table = pd.DataFrame({"kind": labels.values(), "file": labels.keys()})[1:].sample(frac=1, random_state=0)
    table.to_csv(tmp_path / "labels.csv", index=False)
    common = ("train", "photos", "--target", "kind", "--epochs", 1, "--folds", 0, "--as-they-are", "--size", 4)
    code, output, errors = mgce(*common, "--target-file", "labels.csv")
    assert code == 0, errors
    words = " ".join(output.split())
    assert "Note: Of the 30 pictures, 1 without a label stayed unused." in words and "mirrored" not in words
    assert "The network is in photos.pt and a picture of its training in photos.svg." in words
    assert not (tmp_path / "photos.suspects.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("b.npz",), "Expected `source` to be a folder of pictures, or an .npz file, but got 'b.npz'."),
        (("x.npz",), "an .npz file with the arrays x and y, but got 'x.npz with x'"),
        (("bad.npz",), "but bad.npz could not be read"),
        (("short.npz",), "Expected `y` to be one label for each of the 3 images"),
        (("a.npz", "--target-file", "t.csv"), "Expected `target_file` to be given with a folder of pictures"),
        (("a.npz", "--size", "3"), "Expected `size` to be an integer of at least 4"),
        (("a.npz", "--out", "a.npz"), "Expected `out`"),
        (("a.npz", "--out", "."), "Expected `out` to be the path of a file, but got '., which is a folder'."),
        (("a.npz", "--threads", "0"), "Expected `threads` to be an integer of at least 1"),
        (("a.npz", "--device", "abacus"), "Expected `device`"),
        (("photos", "--target", "kind"), "given with a folder of pictures and --target-file"),
        (("photos", "--target-file", "t.csv", "--target", "kind"), "1 that are not there, such as 'c.png'"),
        (("photos", "--target-file", "u.csv", "--target", "kind"), "a column of paths of pictures in photos"),
        (("photos",), "one where a.png lies in no such folder"),
    ],
)
def test_what_cannot_be_learnt_is_said_in_one_sentence(refuses, tmp_path, arrays, arguments, sentence):
    np.savez(tmp_path / "x.npz", x=arrays)
    np.savez(tmp_path / "short.npz", x=arrays[:3], y=[1, 2])
    (tmp_path / "bad.npz").write_bytes(b"PK")
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "photos/a.png")
    pd.DataFrame({"path": ["a.png", "c.png"], "kind": ["x", "y"]}).to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame({"path": ["d.png", "c.png"], "kind": ["x", "y"]}).to_csv(tmp_path / "u.csv", index=False)
    refuses(sentence, "train", *arguments)


def test_pictures_that_cannot_be_read_are_one_sentence(refuses, tmp_path, monkeypatch):
    pictures(tmp_path / "photos", 6)
    for path in (tmp_path / "photos").rglob("*.png"):
        path.write_bytes(b"no picture")
    refuses("photos/dark/000.png to be an image", "train", "photos")
    monkeypatch.setitem(sys.modules, "PIL", None)
    refuses("Images in files need Pillow", "train", "photos")


@pytest.mark.nightly
def test_a_picture_that_cannot_be_read_is_left_out_and_named(tmp_path):
    labels = pictures(tmp_path / "photos", 6)
    whole = read_folder(tmp_path / "photos", None, None, 8, tmp_path / "x", lambda done: None)
    (tmp_path / "photos/light/001.png").write_bytes(b"no picture")
    found = read_folder(tmp_path / "photos", None, None, 8, tmp_path / "x", lambda done: None)
    kept = [place for place, path in enumerate(whole.frame["path"]) if path != "light/001.png"]
    np.testing.assert_array_equal(found.pixels, whole.pixels[kept])
    assert found.labels == [labels[path] for path in found.frame["path"]] and len(found.labels) == 5
    assert found.notes == ["1 of the 6 pictures could not be read and was left out: light/001.png."]


def test_decisions_on_the_suspects_go_on(mgce, tmp_path, monkeypatch):
    """Into `mgce fit`, which has the same keys, and through `mgce clean` back into `mgce-lab train`."""
    register(monkeypatch)
    pictures(tmp_path / "photos", 40)
    (tmp_path / "photos/dark/000.png").rename(tmp_path / "photos/light/000.png")
    assert mgce("train", "photos", *QUICK, "--size", 6, "--quiet")[0] == 0
    suspects = pd.read_csv(tmp_path / "photos.suspects.csv", dtype=str)
    right = np.where(suspects["path"] == "light/000.png", "dark", suspects["given"])
    decided = suspects[["key", "path", "line", "given"]].rename(columns={"path": "row"})
    decided["decision"] = np.where(right == suspects["given"], "keep", "other")
    decided = decided.assign(label=right, shown_as="random", draw=suspects["draw"])
    decided["draw_probability"] = suspects["draw_probability"]
    decided.to_csv(tmp_path / "d.csv", index=False)
    code, _, errors = mgce("fit", "photos", "--encoder", "tiny:net", "--checked", "d.csv", "--out", "f.mgce")
    assert code == 0, errors
    clean = ("clean", "photos.suspects.csv", "--at-most", "0.2", "--checked", "d.csv")
    assert mgce(*clean)[0] == 0
    code, _, errors = mgce("train", "photos", "--target-file", "photos.mended.csv", *QUICK, "--out", "m.pt")
    assert code == 0, errors
    again = pd.read_csv(tmp_path / "m.suspects.csv").set_index("path")["given"]
    assert again["light/000.png"] == "dark" and again["light/001.png"] == "light"
