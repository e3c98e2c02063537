import gzip
import hashlib
import json
import warnings

import pytest

from mgce_lab.data import load, openml

ARFF = """@RELATION covertype
@ATTRIBUTE elevation NUMERIC
@ATTRIBUTE wilderness_area1 {0,1}
@ATTRIBUTE class {Aspen,Krummholz}
@DATA
2596,1,Aspen
2590,0,Aspen
3300,0,Krummholz
3301,1,Krummholz
"""

# Where the data are cached: by the address that the description names; in scikit-learn 1.6 by their number.
DATA_FILES = ("data/v1/download/2418/covertype.arff", "data/v1/download/2418")


@pytest.fixture
def cache(tmp_path):
    """Write what scikit-learn's cache holds after it has fetched this table."""
    types = {"elevation": "numeric", "wilderness_area1": "nominal", "class": "nominal"}
    features = [
        {
            "index": str(i),
            "name": name,
            "data_type": kind,
            "is_target": str(name == "class").lower(),
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": "0",
        }
        for i, (name, kind) in enumerate(types.items())
    ]
    description = {
        "id": "180",
        "name": "covertype",
        "version": "1",
        "description": "made for a test",
        "format": "ARFF",
        "file_id": "2418",
        "url": "https://api.openml.org/data/v1/download/2418/covertype.arff",
        "default_target_attribute": "class",
        "status": "active",
        "md5_checksum": hashlib.md5(ARFF.encode()).hexdigest(),
    }
    documents = {
        "api/v1/json/data/180": json.dumps({"data_set_description": description}),
        "api/v1/json/data/features/180": json.dumps({"data_features": {"feature": features}}),
        "api/v1/json/data/qualities/180": json.dumps({"data_qualities": {"quality": []}}),
        **dict.fromkeys(DATA_FILES, ARFF),
    }
    for name, content in documents.items():
        path = tmp_path / "openml" / "openml.org" / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content.encode()))
    return tmp_path / "openml" / "openml.org"


def test_covertype_is_read_from_the_cache_of_scikit_learn(tmp_path, cache, monkeypatch):
    with pytest.raises(ValueError, match="openml to have 110393 rows of covertype, but got 4"):
        load("covertype", data_dir=tmp_path)
    monkeypatch.setattr(openml, "COVERTYPE_ROWS", 4)
    table = load("covertype", data_dir=tmp_path)
    assert table.name == "covertype" and table.classes == ("Aspen", "Krummholz")
    assert table.target.tolist() == [0, 0, 1, 1]
    assert table.features["elevation"].tolist() == [2596, 2590, 3300, 3301]
    assert table.features["wilderness_area1"].tolist() == ["1", "0", "0", "1"]


def test_a_damaged_cache_is_refused_with_a_sentence(tmp_path, cache):
    paths = [cache / f"{name}.gz" for name in DATA_FILES]
    for path in paths:
        path.write_bytes(gzip.compress(ARFF.replace("2596", "2597").encode()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as a user has it, for whom warnings are no errors
        with pytest.raises(ValueError, match="Expected .*openml to have OpenML's covertype, but got .*md5"):
            load("covertype", data_dir=tmp_path)
    assert all(path.exists() for path in paths)


def test_without_a_local_copy_the_network_is_left_alone(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"hold openml/openml.org/.*180.gz, .* or call sklearn.datasets.fetch_openml"
    ):
        load("covertype", data_dir=tmp_path / "data")
    assert not (tmp_path / "data").exists()
