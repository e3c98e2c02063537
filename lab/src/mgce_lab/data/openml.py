"""Read covertype from OpenML: the version with 110,393 rows."""

from __future__ import annotations

import warnings

from mgce.desk.files.tables import Table, make_table
from mgce_lab.data.sources import DataSource, damaged

COVERTYPE_ID, COVERTYPE_ROWS = 180, 110_393


def load_covertype(data: DataSource) -> Table:
    """Read covertype, OpenML's data set 180: 110,393 rows, 7 classes (cover types), no published test part.

    The local copy is scikit-learn's cache in the folder `openml/`. scikit-learn verifies the checksum that OpenML
    states.
    """
    from sklearn.datasets import fetch_openml

    description = f"openml/openml.org/api/v1/json/data/{COVERTYPE_ID}.gz"
    if not data.download and not (data.folder / description).is_file():
        call = f"sklearn.datasets.fetch_openml(data_id={COVERTYPE_ID}, data_home=data_dir)"
        raise data.missing(description, f"ask for the download, or call {call}")
    try:
        with warnings.catch_warnings():
            if not data.download:  # scikit-learn warns before it fetches a damaged file again
                warnings.simplefilter("error", RuntimeWarning)
            # The faster parser of pandas fails on categories that are numbers (scikit-learn 1.9, pandas 3.1).
            bunch = fetch_openml(
                data_id=COVERTYPE_ID, data_home=data.folder, as_frame=True, n_retries=1, parser="liac-arff"
            )
    except OSError as error:
        page = f"https://www.openml.org/d/{COVERTYPE_ID}"
        raise OSError(f"Expected {page} to be downloadable, but got {error}.") from error
    except RuntimeWarning as warning:
        raise damaged(data.folder / "openml", "OpenML's covertype", warning.__context__) from warning
    except Exception as error:  # a damaged copy: whatever gzip and the parser meet in it
        raise damaged(data.folder / "openml", "OpenML's covertype", error) from error
    if len(bunch.data) != COVERTYPE_ROWS:
        raise damaged(data.folder / "openml", f"{COVERTYPE_ROWS} rows of covertype", len(bunch.data))
    return make_table("covertype", bunch.data, bunch.target)
