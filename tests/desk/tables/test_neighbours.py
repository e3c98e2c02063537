"""The rows beside a row: by content, by features of pictures, and none where nothing tells."""

import numpy as np
import pytest

from mgce.desk.review.suspect_file import PICTURE, Suspect
from mgce.desk.tables.neighbours import NEAREST, neighbours


def row(name, **cells):
    return Suspect(
        rank=1,
        name=str(name),
        line="",
        key=f"r{name}",
        given="a",
        suggested="b",
        alternative="b",
        is_checked=False,
        draw=1,
        draw_probability=0.5,
        cells=(("row", str(name)), *((column, str(cell)) for column, cell in cells.items())),
    )


def names(found):
    return [[one.name for one in each] for each in found]


def test_the_nearest_rows_are_those_of_like_numbers_dates_and_categories(tmp_path):
    rng = np.random.default_rng(0)
    x, z, kind = rng.normal(size=40), rng.normal(size=40), rng.integers(0, 2, 40)
    rows = [row(i, x=x[i], z=z[i], kind="uv"[kind[i]]) for i in range(40)]
    values = np.column_stack([(x - x.mean()) / x.std(), (z - z.mean()) / z.std(), kind == 0, kind == 1]).astype(float)
    wanted = [
        np.linalg.norm(values - one, axis=1).argsort()[1 : NEAREST + 1].astype(str).tolist() for one in values[:9]
    ]
    assert names(neighbours(rows, rows[:9], tmp_path / "none")) == wanted


def test_texts_are_like_by_their_words(tmp_path):
    texts = [f"the {what} number {i} was sent to you" for what in ("card", "parcel") for i in range(30)]
    rows = [row(i, text=text) for i, text in enumerate(texts)]
    for near in names(neighbours(rows, rows[:3], tmp_path / "none")):
        assert len(near) == NEAREST and all(int(name) < 30 for name in near)


def test_pictures_are_like_by_their_features_and_have_no_neighbours_without(tmp_path):
    rows = [row(i, **{PICTURE: f"{i}.png"}) for i in range(4)]
    features = tmp_path / "p.features.npz"
    assert neighbours(rows, rows, features) == []
    np.savez(features, features=np.array([[1, 0], [0, 1], [5, 0.1], [0.1, 5]]), name=np.array(list("0123")))
    assert [near[0] for near in names(neighbours(rows, rows, features))] == ["2", "3", "0", "1"]
    np.savez(features, features=np.eye(3), name=np.array(list("012")))
    assert neighbours(rows, rows, features) == []


INFINITE, HUGE = ([row(i, x=x) for i, x in enumerate([1, 2, 3, each])] for each in ("inf", 1e300))


@pytest.mark.filterwarnings("ignore:.*overflow.*|invalid value:RuntimeWarning")
@pytest.mark.parametrize("rows", [[row(0, x=1)], [row(0), row(1)], INFINITE, HUGE], ids=["one", "none", "inf", "huge"])
def test_where_nothing_tells_there_are_no_neighbours(rows, tmp_path):
    assert neighbours(rows, rows, tmp_path / "none") == []
