"""Read tables from the files of the UCI repository: letter recognition, adult, covertype, spambase, magic."""

from __future__ import annotations

import gzip
import zlib
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mgce._limits import read_at_most
from mgce.desk.files.tables import Table, make_table
from mgce_lab.data.sources import DataSource, Source, damaged

if TYPE_CHECKING:
    import pandas as pd

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
# The checksums of letter, spambase and magic are ones that several programs verify, those of adult are TensorFlow
# Datasets', that of covertype is scikit-learn's.
LETTER = Source.named(
    f"{UCI}/letter-recognition/letter-recognition.data",
    "sha256:2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
    "uci",
)
ADULT_TRAIN = Source.named(
    f"{UCI}/adult/adult.data", "sha256:5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d", "uci"
)
ADULT_TEST = Source.named(
    f"{UCI}/adult/adult.test", "sha256:a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05", "uci"
)
COVERTYPE = Source(
    "uci/covtype.data.gz",
    "https://ndownloader.figshare.com/files/5976039",
    "sha256:614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
)
SPAMBASE = Source.named(
    f"{UCI}/spambase/spambase.data", "sha256:b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12", "uci"
)
MAGIC = Source.named(
    f"{UCI}/magic/magic04.data", "sha256:e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a", "uci"
)
COVERTYPE_SAMPLE, COVERTYPE_SAMPLE_ROWS = "uci/covtype_random176997.data.gz", 176_997
LETTER_COLUMNS = [
    *("lettr", "x-box", "y-box", "width", "high", "onpix", "x-bar", "y-bar", "x2bar", "y2bar", "xybar"),
    *("x2ybr", "xy2br", "x-ege", "xegvy", "y-ege", "yegvx"),
]
ADULT_COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
]
COVERTYPE_COLUMNS = [
    *("Elevation", "Aspect", "Slope", "Horizontal_Distance_To_Hydrology", "Vertical_Distance_To_Hydrology"),
    *("Horizontal_Distance_To_Roadways", "Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm"),
    "Horizontal_Distance_To_Fire_Points",
    *(f"Wilderness_Area{i}" for i in range(1, 5)),
    *(f"Soil_Type{i}" for i in range(1, 41)),
    "Cover_Type",
]
SPAMBASE_COLUMNS = [
    *(f"word_{i}" for i in range(1, 49)),  # in percent of the words, in the order of UCI's spambase.names
    *(f"char_{i}" for i in range(1, 7)),
    *("capital_run_length_average", "capital_run_length_longest", "capital_run_length_total", "spam"),
]
MAGIC_COLUMNS = [
    *("fLength", "fWidth", "fSize", "fConc", "fConc1", "fAsym", "fM3Long", "fM3Trans", "fAlpha", "fDist", "class"),
]


def load_letter(data: DataSource) -> Table:
    """Read letter recognition: 20,000 rows, 16 integers, 26 classes; usually the first 16,000 rows are for training."""
    frame = _read(data.locate(LETTER), LETTER_COLUMNS, keep_default_na=False)
    return make_table("letter", frame.drop(columns="lettr"), frame["lettr"], n_train=16_000)


def load_adult(data: DataSource) -> Table:
    """Read adult: 32,561 training and 16,281 test rows, 6 numbers, 8 categories, two classes; "?" means missing."""
    import pandas as pd

    # The first line of adult.test is a comment, and its labels end in a full stop.
    options = {"skipinitialspace": True, "na_values": "?", "comment": "|"}
    train, test = (_read(data.locate(source), ADULT_COLUMNS, **options) for source in (ADULT_TRAIN, ADULT_TEST))
    frame = pd.concat([train, test], ignore_index=True)
    return make_table("adult", frame.drop(columns="income"), frame["income"].str.rstrip("."), n_train=len(train))


def load_covertype_full(data: DataSource) -> Table:
    """Read covertype: 581,012 rows, 54 integer features, 7 classes (cover types).

    The rows keep UCI's order, which is not random: in the first 15,120 rows all types are equally frequent.
    """
    return _covertype("covertype_full", _read(data.locate(COVERTYPE), COVERTYPE_COLUMNS, dtype="int16"))


def load_covertype_sample(data: DataSource) -> Table:
    """Read a sample of 176,997 random rows of covertype, in UCI's format, from a local file.

    The sample is not published, so it has no checksum. Instead the columns and rows of the file are counted.
    """
    path = data.folder / COVERTYPE_SAMPLE
    if not path.is_file():
        raise data.missing(COVERTYPE_SAMPLE, "it is not published, load 'covertype' or 'covertype_full' instead")
    frame = _read(path, COVERTYPE_COLUMNS, dtype="int16")
    if len(frame) != COVERTYPE_SAMPLE_ROWS:
        raise damaged(path, f"{COVERTYPE_SAMPLE_ROWS} rows", len(frame))
    return _covertype("covertype_sample", frame)


def load_spambase(data: DataSource) -> Table:
    """Read spambase: 4,601 e-mails, 57 frequencies of words and characters, two classes: spam or not."""
    frame = _read(data.locate(SPAMBASE), SPAMBASE_COLUMNS)
    return make_table("spambase", frame.drop(columns="spam"), frame["spam"])


def load_magic(data: DataSource) -> Table:
    """Read magic: 19,020 simulated showers in a gamma-ray telescope, 10 features, classes gamma (g) and hadron (h)."""
    frame = _read(data.locate(MAGIC), MAGIC_COLUMNS)
    return make_table("magic", frame.drop(columns="class"), frame["class"])


def _covertype(name: str, frame: pd.DataFrame) -> Table:
    return make_table(name, frame.drop(columns="Cover_Type"), frame["Cover_Type"])


def _read(path: Path, columns: list[str], **options: Any) -> pd.DataFrame:
    import pandas as pd

    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = BytesIO(read_at_most(file))
        frame: pd.DataFrame = pd.read_csv(content, header=None, **options)
    except (ValueError, OSError, EOFError, zlib.error, OverflowError) as error:  # pandas' own are among the first
        raise damaged(path, f"{len(columns)} columns of a table", error) from error
    if frame.shape[1] != len(columns):
        raise damaged(path, f"{len(columns)} columns", frame.shape[1])
    frame.columns = pd.Index(columns)
    return frame
