import numpy as np
import pytest

from mgce_lab.data import load, uci, uci_copies


def test_the_digits_of_pens_are_ten_zeros_and_ones(tmp_path, publish):
    rows = [[*range(i, i + 16), "".join("1" if j == i % 3 else "0" for j in range(10))] for i in range(30)]
    lines = [",".join(map(str, row)) for row in rows]
    publish(uci_copies, "PENDIGITS_TRAIN", "\n".join(lines[:20]).encode())
    publish(uci_copies, "PENDIGITS_TEST", "\n".join(lines[20:]).encode())
    table = load("pendigits", data_dir=tmp_path)
    assert table.classes == ("0", "1", "2") and table.target.tolist() == [0, 1, 2] * 10 and table.n_train == 20
    assert table.features.iloc[3].tolist() == [*range(3, 19)] and [*table.features.columns[:3]] == ["x1", "y1", "x2"]


def test_segments_have_their_class_first(tmp_path, publish):
    content = "class,A,B\n\n" + "SKY,1,2.5\nPATH,3,4\n" * 5
    publish(uci_copies, "SEGMENT_TRAIN", content.encode())
    publish(uci_copies, "SEGMENT_TEST", content.encode())
    table = load("segment", data_dir=tmp_path)
    assert table.classes == ("PATH", "SKY") and table.n_train == 10 and table.target.tolist() == [1, 0] * 10
    assert table.features["B"].tolist() == [2.5, 4.0] * 10


def test_the_rare_rank_of_nursery_is_left_out(tmp_path, publish):
    ranks = [*["priority", "not_recom"] * 10, "recommend"]
    content = "parents,assessment\n" + "".join(f"usual,{rank}\n" for rank in ranks)
    publish(uci_copies, "NURSERY", content.encode())
    table = load("nursery", data_dir=tmp_path)
    assert table.classes == ("not_recom", "priority") and len(table.features) == 20


def test_a_damaged_copy_is_refused(tmp_path, publish):
    publish(uci_copies, "NURSERY", b"").write_bytes(b"parents,assessment\n")
    with pytest.raises(ValueError, match="nursery.data to have the sha256 checksum"):
        load("nursery", data_dir=tmp_path)
    publish(uci_copies, "NURSERY", b"")
    with pytest.raises(ValueError, match="nursery.data to have a table, but got No columns to parse"):
        load("nursery", data_dir=tmp_path)


@pytest.mark.parametrize("name, source, n", [("spambase", "SPAMBASE", 57), ("magic", "MAGIC", 10)])
def test_spambase_and_magic_have_their_label_last(tmp_path, publish, name, source, n):
    values = np.random.default_rng(0).integers(0, 9, (20, n))
    lines = [",".join(map(str, [*row, "gh"[i % 2]])) for i, row in enumerate(values)]
    publish(uci, source, "\r\n".join(lines).encode())
    table = load(name, data_dir=tmp_path)
    np.testing.assert_array_equal(table.features.to_numpy(), values)
    assert table.classes == ("g", "h") and table.target.tolist() == [0, 1] * 10


FACTS = {  # as UCI's pages state them; nursery without the two rows of "recommend"
    "pendigits": (10_992, 16, 10, 1055),
    "segment": (2_310, 19, 7, 330),
    "nursery": (12_958, 8, 4, 328),
    "spambase": (4_601, 57, 2, 1813),
    "magic": (19_020, 10, 2, 6688),
}
SOURCES = {
    "pendigits": (uci_copies.PENDIGITS_TRAIN, uci_copies.PENDIGITS_TEST),
    "segment": (uci_copies.SEGMENT_TRAIN, uci_copies.SEGMENT_TEST),
    "nursery": (uci_copies.NURSERY,),
    "spambase": (uci.SPAMBASE,),
    "magic": (uci.MAGIC,),
}


@pytest.mark.parametrize("name", FACTS)
def test_the_tables_are_the_published_ones(real_data, name):
    table = load(name, data_dir=real_data(*(source.path for source in SOURCES[name])))
    rows, columns, classes, rarest = FACTS[name]
    assert table.features.shape == (rows, columns) and len(table.classes) == classes
    assert np.bincount(table.target).min() == rarest
