from mgce_lab.engine.png import figure, png


def drawn():
    chart, axes = figure(3, 2.0, 1.5)
    for number, axis in enumerate(axes):
        axis.plot([0, 1], [0, number])
    return chart, axes


def test_panels_stand_in_rows():
    chart, axes = drawn()
    assert len(axes) == len(chart.axes) == 3
    assert chart.get_size_inches().tolist() == [4.0, 3.0]
    tops = [round(axis.get_position().y1, 2) for axis in axes]
    assert tops[0] == tops[1] > tops[2]


def test_the_same_figure_has_the_same_bytes():
    first, second = png(drawn()[0]), png(drawn()[0])
    assert first == second and first.startswith(b"\x89PNG") and b"Software" not in first


def test_a_row_is_as_high_as_its_highest_panel():
    chart, axes = figure(3, 2.0, [1.0, 2.0, 1.5])
    assert chart.get_size_inches().tolist() == [4.0, 3.5]
    chart.draw_without_rendering()
    heights = [axis.get_position().height * 3.5 for axis in axes]
    assert heights[0] == heights[1] > heights[2] > 0.5
