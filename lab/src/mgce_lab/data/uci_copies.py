"""Read tables of the UCI repository from copies on GitHub, whose content is fixed by a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mgce.desk.files.tables import Table, make_table
from mgce_lab.data.sources import DataSource, Source, damaged

if TYPE_CHECKING:
    import pandas as pd

GITHUB = "https://raw.githubusercontent.com"
_PENDIGITS = f"{GITHUB}/1nflktd/RedeNeuralGoIA2/8f9835b47a136471f90943f13bf03ce076da5557"
_SEGMENT = f"{GITHUB}/dhankasushil/Database-for-SE/fe8cf7e50dd3894e1a289d659a656f124c4efe19"
_NURSERY = f"{GITHUB}/rafat-chowdhury/NurseryAppML/8729fb07af5ad14b6edbc3d5fc1b82ee19f2c45e"
PENDIGITS_TRAIN = Source.named(
    f"{_PENDIGITS}/pendigits.tra",
    "sha256:46d918c0bf055fc9cbed117c9c4e34af870a4f9b42d4716e5a6f27ab2e298a9f",
    "uci-copies",
)
PENDIGITS_TEST = Source.named(
    f"{_PENDIGITS}/pendigits.tes",
    "sha256:70f0eb502f352398cbab8f3cf8c60365ceede5390a0ed78fe7767739e7173ae1",
    "uci-copies",
)
SEGMENT_TRAIN = Source.named(
    f"{_SEGMENT}/segmentation.data",
    "sha256:bfb7cabcb8f52577ce1ccaf161c7b0c4b202b347a854f5570a239fccc5a9578a",
    "uci-copies",
)
SEGMENT_TEST = Source.named(
    f"{_SEGMENT}/segmentation.test",
    "sha256:0c4acd1154fbfe02924b191aa95e52485aa30b2f87b769ed7b6509ed3121e57a",
    "uci-copies",
)
NURSERY = Source.named(
    f"{_NURSERY}/nursery.data", "sha256:67bef4ec7de0603d8771e3f72ded2a4abb56d51d445cbaf4fb940105e98ff95a", "uci-copies"
)


def load_pendigits(data: DataSource) -> Table:
    """Read pen-based digits: 10,992 rows, 16 pen coordinates, 10 classes; usually the first 7,494 are for training.

    This copy one-hot encodes each digit by ten columns; the last column is digit 9.
    """
    import pandas as pd

    # The labels begin with zeros, which a number would lose.
    options = {"header": None, "skipinitialspace": True, "dtype": {16: "str"}}
    parts = [_read(source, data, **options) for source in (PENDIGITS_TRAIN, PENDIGITS_TEST)]
    frame = pd.concat(parts, ignore_index=True)
    labels = frame.pop(frame.columns[-1]).str.find("1").astype(str)
    frame.columns = pd.Index([f"{axis}{point}" for point in range(1, 9) for axis in "xy"])
    return make_table("pendigits", frame, labels, n_train=len(parts[0]))


def load_segment(data: DataSource) -> Table:
    """Read image segmentation: 2,310 patches of 3 x 3 pixels, 19 numeric features, 7 classes (materials).

    The first 210 rows are usually used for training.
    """
    import pandas as pd

    parts = [_read(source, data) for source in (SEGMENT_TRAIN, SEGMENT_TEST)]
    frame = pd.concat(parts, ignore_index=True)
    return make_table("segment", frame.drop(columns="class"), frame["class"], n_train=len(parts[0]))


def load_nursery(data: DataSource) -> Table:
    """Read nursery: 12,958 applications to nursery schools, 8 categorical features, 4 classes (ranks).

    The two rows of a fifth rank, "recommend", are left out, since two rows are too few to learn from.
    """
    frame = _read(NURSERY, data)
    frame = frame[frame["assessment"] != "recommend"].reset_index(drop=True)
    return make_table("nursery", frame.drop(columns="assessment"), frame["assessment"])


def _read(source: Source, data: DataSource, **options: Any) -> pd.DataFrame:
    import pandas as pd

    path = data.locate(source)
    try:
        frame: pd.DataFrame = pd.read_csv(path, **options)
    except ValueError as error:  # pandas' own are among them; a file that passed its checksum gives none
        raise damaged(path, "a table", error) from error
    return frame
