"""Bounds by the number of checked rows, on CIFAR-10N: the picture of docs/certificates.md.

`python -m mgce_lab.studies.checked_rows EMBEDDINGS CIFARN` reads the folders of `mgce_lab.studies.cifar10n`, draws
samples of 3,000 rows of one of its worlds, and checks more and more rows of each. Mean bounds are written to
results/certificates/checked-rows.json. `--picture` only draws the picture anew.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from mgce_lab.engine.picture import AMBER, BLUE, GREEN, GREY, Line, lines
from mgce_lab.studies.cifar10n import HELD_OUT, command, world
from mgce_lab.studies.human_noise import looked_up

RESULTS = Path(__file__).parents[4] / "results" / "certificates" / "checked-rows.json"
PICTURE = Path(__file__).parents[4] / "docs" / "images" / "checked-rows.svg"
LABELS, MODEL = "random", "LDA"
ROWS = (50, 100, 200, 300, 600, 1000)
SHOWN = (
    ("at every look", "checked, anytime", GREEN, "6 4"),
    ("Clopper-Pearson", "checked alone", AMBER, "none"),
    ("mean bound", "checked", BLUE, "none"),
)


def main() -> None:
    """Measure, and draw the picture."""
    parser = command("checked_rows", __doc__, "--picture", "draw the picture")
    parser.add_argument("--draws", type=int, default=100)
    options = parser.parse_args()
    if not options.picture:
        right, given, probs = world(options.embeddings, options.cifarn, LABELS, MODEL)
        widths = [looked_up(right, given, probs, m, options.draws) for m in ROWS]
        truth = float((probs.argmax(1) != right).mean())
        head = {"labels": LABELS, "model": MODEL, "n": HELD_OUT, "draws": options.draws, "true error": truth}
        RESULTS.write_text(json.dumps(head | {"widths": widths}, indent=1) + "\n")
    PICTURE.write_text(render(json.loads(RESULTS.read_text())))


def render(found: dict[str, Any]) -> str:
    """Return the picture as SVG: a line for each way to use the checked rows."""
    widths, truth = found["widths"], 100 * found["true error"]
    values = {name: [(math.log(w["looked up"]), 100 * w[key]) for w in widths] for key, name, *_ in SHOWN}
    drawn = [Line(name, colour, values[name], dash) for _, name, colour, dash in SHOWN]
    ends = [math.log(widths[place]["looked up"]) for place in (0, -1)]
    said = "; ".join(f"{name} {', '.join(f'{y:.1f}' for _, y in points)}" for name, points in values.items())
    ticks = {math.log(w["looked up"]): f"{w['looked up']:,}" for w in widths}
    return lines(
        f"Mean bound on an error of {truth:.1f} % with {', '.join(ticks.values())} checked rows: {said}",
        "mean bound on the error",
        "checked rows, of 3,000 with labels by people",
        [*drawn, Line("true error", GREY, [(x, truth) for x in ends])],
        ticks,
        low=15,
    )


if __name__ == "__main__":
    main()
