from xml.etree import ElementTree

import pytest

from mgce._svg import Axis, Series, chart

X = Axis("time <s>", 0, 10, [(0, "0"), (5, "five"), (10, "10")])
Y = Axis("share", -1, 1, [(-1, "-1"), (1, "1")])


@pytest.fixture
def drawing():
    series = [Series([(0, -1, 2.0), (5, 0, 3.0), (10, 1, 4.0)], "h")]
    return ElementTree.fromstring(chart(series, X, Y, 'a "line" & more', height=200, diagonal=True))


def test_points_lie_between_the_lines_of_their_ticks(drawing):
    low, middle, high = ((float(c.get("cx")), float(c.get("cy")), float(c.get("r"))) for c in drawing.iter("circle"))
    lines = [[float(line.get(end)) for end in ("x1", "y1", "x2", "y2")] for line in drawing.iter("line")]
    bottom, top, left, center, right, diagonal = lines
    assert low == (left[0], bottom[1], 2.0) and high == (right[0], top[1], 4.0)
    assert middle[0] == center[0] and abs(middle[1] - (bottom[1] + top[1]) / 2) < 0.11
    assert diagonal == [left[0], bottom[1], right[0], top[1]]
    assert bottom[1] > top[1] and right[0] > left[0]
    places = [tuple(map(float, place.split(","))) for place in drawing.find("polyline").get("points").split()]
    assert places == [low[:2], middle[:2], high[:2]]


def test_everything_is_inside_and_text_is_escaped(drawing):
    _, _, width, height = map(float, drawing.get("viewBox").split())
    assert (width, height) == (360, 200)
    for circle in drawing.iter("circle"):
        assert 0 < float(circle.get("cx")) < width and 0 < float(circle.get("cy")) < height
    assert {text.text for text in drawing.iter("text")} == {"0", "five", "10", "-1", "1", "time <s>", "share"}
    assert drawing.get("aria-label") == 'a "line" & more' and drawing.get("role") == "img"
