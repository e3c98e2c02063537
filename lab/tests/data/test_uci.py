import csv
import gzip

import numpy as np
import pytest

from mgce.desk.files import preprocessor
from mgce_lab.data import load, uci


def test_letter_has_its_label_first(tmp_path, publish):
    lines = [f"{'AB'[i % 2]}," + ",".join(str((i * j) % 16) for j in range(16)) for i in range(20)]
    publish(uci, "LETTER", "\n".join(lines).encode())
    table = load("letter", data_dir=tmp_path)
    assert table.classes == ("A", "B") and table.target.tolist() == [0, 1] * 10
    assert table.features.iloc[3].tolist() == [3 * j % 16 for j in range(16)]
    assert table.features.columns[0] == "x-box" and table.features.columns[-1] == "yegvx"


ADULT = "{}, {}, 77516, Bachelors, 13, Never-married, {}, Not-in-family, White, Male, 2174, 0, 40, Cuba, {}\n"


def test_adult_joins_both_files_and_knows_missing_values(tmp_path, publish):
    train = ADULT.format(39, "State-gov", "Sales", "<=50K") + ADULT.format(50, "?", "?", ">50K") + "\n"
    test = "|1x3 Cross validator\n" + ADULT.format(25, "Private", "Sales", ">50K.") + "\n"
    publish(uci, "ADULT_TRAIN", train.encode())
    publish(uci, "ADULT_TEST", test.encode())
    table = load("adult", data_dir=tmp_path)
    assert table.classes == ("<=50K", ">50K") and table.target.tolist() == [0, 1, 1] and table.n_train == 2
    assert table.features["age"].tolist() == [39, 50, 25]
    assert table.features["workclass"].isna().tolist() == [False, True, False]
    assert table.features["native-country"].tolist() == ["Cuba"] * 3


def covertype_file(n, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.integers(-100, 7000, (n, 10)), rng.integers(0, 2, (n, 44)), rng.integers(1, 8, n)])
    return rows, gzip.compress("\n".join(",".join(map(str, row)) for row in rows).encode())


def test_covertype_full_has_its_label_last(tmp_path, publish):
    rows, content = covertype_file(100)
    publish(uci, "COVERTYPE", content)
    table = load("covertype_full", data_dir=tmp_path)
    np.testing.assert_array_equal(table.features.to_numpy(), rows[:, :54])
    assert [int(table.classes[y]) for y in table.target] == rows[:, 54].tolist()
    assert table.features.columns[53] == "Soil_Type40" and table.n_train is None


def test_a_sample_of_covertype_is_counted(tmp_path, monkeypatch):
    path = tmp_path / uci.COVERTYPE_SAMPLE
    with pytest.raises(FileNotFoundError, match="it is not published, load 'covertype' or 'covertype_full' instead"):
        load("covertype_sample", data_dir=tmp_path, download=True)
    path.parent.mkdir()
    rows, content = covertype_file(100)
    path.write_bytes(content)
    with pytest.raises(ValueError, match="covtype_random176997.data.gz to have 176997 rows, but got 100"):
        load("covertype_sample", data_dir=tmp_path)
    monkeypatch.setattr(uci, "COVERTYPE_SAMPLE_ROWS", 100)
    np.testing.assert_array_equal(load("covertype_sample", data_dir=tmp_path).features.to_numpy(), rows[:, :54])
    for damaged, sentence in (
        (content[:-20], "55 columns of a table"),
        (gzip.compress(b"1,2\n3,4\n"), "55 columns, but got 2"),
        (gzip.compress(b"1,x\n3,4\n"), "55 columns of a table, but got .*'x'"),
        (gzip.compress(b""), "55 columns of a table, but got No columns"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"covtype_random176997.data.gz to have {sentence}"):
            load("covertype_sample", data_dir=tmp_path)


def read_csv_by_hand(path):
    with path.open(newline="") as file:
        return [[field.strip() for field in row] for row in csv.reader(file) if len(row) > 1]


def test_letter_is_the_published_table(real_data):
    folder = real_data(uci.LETTER.path)
    table = load("letter", data_dir=folder)
    rows = read_csv_by_hand(folder / uci.LETTER.path)
    assert [table.classes[y] for y in table.target] == [row[0] for row in rows]
    assert table.features.to_numpy().tolist() == [[int(value) for value in row[1:]] for row in rows]
    assert len(rows) == 20_000 and len(table.classes) == 26 and table.n_train == 16_000
    assert np.bincount(table.target)[:4].tolist() == [789, 766, 736, 805]  # letter-recognition.names


def test_adult_is_the_published_table_and_goes_to_numbers(real_data):
    folder = real_data(uci.ADULT_TRAIN.path, uci.ADULT_TEST.path)
    table = load("adult", data_dir=folder)
    train, test = (read_csv_by_hand(folder / source.path) for source in (uci.ADULT_TRAIN, uci.ADULT_TEST))
    assert (len(train), len(test), len(table.features), table.n_train) == (32_561, 16_281, 48_842, 32_561)
    assert [table.classes[y] for y in table.target] == [row[14].rstrip(".") for row in train + test]
    assert np.bincount(table.target[:32_561]).tolist() == [24_720, 7_841]
    assert np.bincount(table.target[32_561:]).tolist() == [12_435, 3_846]
    assert int(table.features.isna().sum().sum()) == sum(value == "?" for row in train + test for value in row)

    transform = preprocessor(table.features).fit(table.features.iloc[: table.n_train])
    categories = [1, 3, 5, 6, 7, 8, 9, 13]
    n_levels = sum(len({row[i] for row in train}) for i in categories)  # a missing one is a level of its own
    for part in (table.features.iloc[:32_561], table.features.iloc[32_561:]):
        X = transform.transform(part)
        assert X.shape == (len(part), 6 + n_levels) and np.isfinite(X).all()
    numbers = np.array([[float(row[i]) for i in (0, 2, 4, 10, 11, 12)] for row in train])
    standard = (numbers - numbers.mean(0)) / numbers.std(0)
    np.testing.assert_allclose(transform.transform(table.features.iloc[:32_561])[:, :6], standard, atol=1e-9)


def test_the_sample_of_covertype_looks_like_the_whole(real_data):
    folder = real_data(uci.COVERTYPE_SAMPLE)
    table = load("covertype_sample", data_dir=folder)
    assert table.features.shape == (176_997, 54) and table.classes == tuple("1234567")
    shares = np.bincount(table.target) / 176_997
    whole = np.array([211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510]) / 581_012  # covtype.info
    # Four standard deviations of a sample of this size.
    assert (abs(shares - whole) < 4 * np.sqrt(whole * (1 - whole) / 176_997)).all()
    assert (table.features.filter(like="Wilderness").sum(axis=1) == 1).all()
    assert (table.features.filter(like="Soil").sum(axis=1) == 1).all()
    assert table.features["Elevation"].between(1859, 3858).all()
