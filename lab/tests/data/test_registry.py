import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from mgce.desk.files.text_tables import TextFormat
from mgce_lab.data import IMAGE_NAMES, NAMES, citation, load, load_images

ASKED = {"mnist", "fashion_mnist", "cifar10", "cifar100", "svhn", "tiny_imagenet", "webvision", "clothing1m"}


def test_the_names_are_those_of_the_paper_and_more():
    assert set(IMAGE_NAMES) == ASKED | {"cifar10n", "cifar100n", "digits"}
    assert {"digits", "letter", "adult", "covertype", "covertype_full", "mnist"} <= set(NAMES)


@pytest.mark.parametrize("name", sorted({*NAMES, *IMAGE_NAMES}))
def test_every_data_set_has_a_citation(name):
    assert citation(name).endswith(".") and len(citation(name)) > 30


@pytest.mark.parametrize(("function", "names"), [(load, NAMES), (load_images, IMAGE_NAMES)])
def test_every_data_set_has_a_row_in_the_docstring_of_its_reader(function, names):
    rows = function.__doc__.partition("====\n")[2].rpartition("====\n")[0]
    assert [name for name in names if not re.search(rf"\b{name}\b", rows)] == []


@pytest.mark.parametrize("name", sorted({*NAMES, *IMAGE_NAMES} - {"digits", "iris", "wine", "breast_cancer"}))
def test_every_data_set_says_what_is_missing_and_makes_nothing(tmp_path, name):
    for names, function in ((NAMES, load), (IMAGE_NAMES, load_images)):
        if name in names:
            with pytest.raises(FileNotFoundError, match=r"Expected `data_dir` to hold .*, but there is no .*: .*\.$"):
                function(name, data_dir=tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_the_environment_names_the_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("MGCE_DATA_DIR", str(tmp_path / "here"))
    with pytest.raises(FileNotFoundError, match=f"there is no {tmp_path}/here/uci/adult.data"):
        load("adult")


def test_digits_are_images_and_a_table():
    images, table = load_images("digits"), load("digits")
    parts = (images.train, images.test)
    pixels = np.concatenate([part.images for part in parts])
    assert pixels.shape == (1797, 1, 8, 8) and pixels.dtype == np.uint8 and (pixels.min(), pixels.max()) == (0, 255)
    np.testing.assert_allclose(pixels.reshape(1797, 64), table.features * 255 / 16, atol=0.5)
    target = np.concatenate([part.target for part in parts])
    assert np.array_equal(np.array(images.classes)[target], np.array(table.classes)[table.target])
    assert len(images.test) == 360


def test_unknown_names_are_refused_with_a_sentence():
    with pytest.raises(
        ValueError, match="Expected `dataset` to be one of 'mnist', 'fashion_mnist', .* but got 'letter'"
    ):
        load_images("letter")
    with pytest.raises(ValueError, match="Expected `dataset` to be one of 'digits', .* but got 'cifar10'"):
        load("cifar10")
    with pytest.raises(ValueError, match="Expected `dataset` to be one of .* but got 'nothing'"):
        citation("nothing")
    with pytest.raises(ValueError, match="Expected `target` to be left out"):
        load("letter", "lettr")
    for name, keywords in (("drop", {"drop": ["petal"]}), ("sep", {"form": TextFormat(sep=";")})):
        with pytest.raises(ValueError, match=f"Expected `{name}` to be left out, since 'iris' is not a file"):
            load("iris", **keywords)


def run(program, *arguments):
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


def test_files_say_when_pillow_is_missing():
    program = (
        "import sys, pathlib, numpy; sys.modules['PIL'] = None\n"
        "from mgce.desk.files.images import ImageFiles\n"
        "ImageFiles((pathlib.Path('x.jpg'),), numpy.zeros(1))[0]"
    )
    last = run(program).stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: Images in files need Pillow, which is not installed: ")
    assert last.endswith("run `pip install -c constraints.txt '.[vision]'`.")


@pytest.mark.parametrize("name", ["digits", "iris", "wine", "breast_cancer"])
def test_named_data_sets_are_those_of_scikit_learn(name):
    table = load(name)
    assert len(table.features) == len(table.target) and len(table.classes) >= 2
    assert set(np.unique(table.target)) == set(range(len(table.classes)))


def test_digits_keep_their_labels():
    table = load("digits")
    expected = load_digits()
    assert [int(table.classes[y]) for y in table.target] == expected.target.tolist()
    np.testing.assert_array_equal(table.features.to_numpy(), expected.data)


def test_a_name_or_a_path_and_what_goes_with_it(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n" + "1,x\n2,y\n" * 10)
    assert load(str(tmp_path / "t.csv"), "b").classes == ("x", "y")
    with pytest.raises(ValueError, match="Expected `target` to name the column"):
        load(str(tmp_path / "t.csv"))
    with pytest.raises(ValueError, match="Expected `dataset` to be one of 'digits'"):
        load("minst")
    with pytest.raises(ValueError, match="Expected `target` to be left out"):
        load("iris", "species")


def test_a_mistyped_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'iris'"):
        load("iriss")
    with pytest.raises(ValueError, match="Did you mean 'mnist'"):
        load_images("mnits")
