import hashlib

import pytest

from mgce_lab.data.sources import DataSource, Source

CONTENT = b"some rows\n" * 1000


@pytest.fixture
def published(tmp_path):
    file = tmp_path / "server" / "rows.data"
    file.parent.mkdir()
    file.write_bytes(CONTENT)
    return Source("set/rows.data", file.as_uri(), "md5:" + hashlib.md5(CONTENT).hexdigest())


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_download_is_verified_and_then_read_as_local_copy(tmp_path, published):
    path = DataSource(tmp_path / "data", download=True).locate(published)
    assert path == tmp_path / "data" / "set" / "rows.data" and path.read_bytes() == CONTENT
    (tmp_path / "server" / "rows.data").unlink()
    assert DataSource(tmp_path / "data", download=True).locate(published) == path
    assert DataSource(tmp_path / "data").locate(published) == path
    assert names(tmp_path / "data") == ["set/rows.data"]


def test_a_download_that_fails_leaves_no_file(tmp_path, published):
    wrong = Source(published.path, published.url, "sha256:" + hashlib.sha256(CONTENT[:-1]).hexdigest())
    with pytest.raises(ValueError, match="rows.data to have the sha256 checksum .* but got .*: the file is damaged"):
        DataSource(tmp_path / "data", download=True).locate(wrong)
    gone = Source(published.path, published.url + ".gone", published.checksum)
    with pytest.raises(OSError, match="Expected file:.*gone to be downloadable, but got .*put it at .*set/rows.data"):
        DataSource(tmp_path / "data", download=True).locate(gone)
    assert names(tmp_path / "data") == []


def test_a_damaged_local_copy_is_refused_and_kept(tmp_path, published):
    path = DataSource(tmp_path / "data", download=True).locate(published)
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(ValueError) as error:
        DataSource(tmp_path / "data", download=True).locate(published)
    for part in (str(path), published.checksum.removeprefix("md5:"), hashlib.md5(CONTENT[:-1]).hexdigest()):
        assert part in str(error.value)
    assert path.read_bytes() == CONTENT[:-1]


def test_a_missing_file_says_what_to_put_where(tmp_path, published):
    with pytest.raises(FileNotFoundError) as error:
        DataSource(tmp_path / "data").locate(published)
    assert str(error.value) == (
        f"Expected `data_dir` to hold set/rows.data, but there is no {tmp_path}/data/set/rows.data: "
        f"get it from {published.url}, or ask for the download."
    )
    assert not (tmp_path / "data").exists()


def test_the_data_directory_is_the_argument_the_environment_or_data(tmp_path, monkeypatch):
    monkeypatch.setenv("MGCE_DATA_DIR", "elsewhere")
    assert str(DataSource().folder) == "elsewhere" and DataSource(str(tmp_path)).folder == tmp_path
    monkeypatch.delenv("MGCE_DATA_DIR")
    assert str(DataSource().folder) == "data"
