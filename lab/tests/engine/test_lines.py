"""A study that was stopped goes on: what has a line is not measured again, and no line is lost."""

import json

from mgce_lab.engine.lines import Lines


def test_a_study_goes_on_where_it_stopped(tmp_path, capsys):
    path = tmp_path / "below" / "x.jsonl"
    cells = [{"seed": seed, "method": method} for seed in range(2) for method in "ab"]
    measured = []
    for stop in (1, 4):
        lines = Lines(path, "seed", "method")  # as a new process finds it
        for cell in cells:
            if cell not in lines and len(measured) < stop:
                measured.append(cell)
                lines.add(cell | {"seconds": 1.0, "wrong": [1, 2]}, unseen=["wrong"])
    assert measured == cells
    assert all(cell.items() <= line.items() for line, cell in zip(lines.read(), cells, strict=True))
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert shown == [{**cell, "seconds": 1.0} for cell in cells]
    assert [line["wrong"] for line in Lines(path).read()] == [[1, 2]] * 4
