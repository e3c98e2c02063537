from pathlib import Path

import numpy as np
import pytest
from paper.image_runs import finished
from paper.letter_records import as_run, letter
from scipy import stats

from mgce_lab.engine.store import Runs
from mgce_lab.paper import advantage
from mgce_lab.paper.table3 import tabular_records

RESULTS = Path(__file__).parents[3] / "results" / "paper"


@pytest.fixture(scope="module")
def committed():
    runs = list(Runs(RESULTS).read().values())
    return tabular_records(runs), advantage.render(runs)


def test_committed_cells_are_paired_tests_of_the_records(committed):
    records, result = committed
    numbers = {(row["dataset"], row["noise_rate"], row["over"]): row for row in result.numbers}
    for (dataset, noise, over), row in numbers.items():
        if dataset not in ("letter", "adult"):
            continue
        chosen = []
        for method in ("mgce", over):
            own = [r for r in records if (r["dataset"], r["noise_rate"], r["method"]) == (dataset, noise, method)]
            by_seed = [[r for r in own if r["seed"] == seed] for seed in range(5)]
            best = [min(group, key=lambda r: (-r["validation_accuracy"], r["beta"])) for group in by_seed]
            chosen.append(100 * np.array([record["accuracy"] for record in best]))
        assert row["points"] == pytest.approx((chosen[0] - chosen[1]).mean(), abs=1e-9)
        assert row["p"] == pytest.approx(stats.ttest_rel(*chosen).pvalue, rel=1e-6)
    assert len([key for key in numbers if key[0] in ("letter", "adult")]) == 2 * 3 * 3


def test_what_the_committed_records_say(committed):
    _, result = committed
    cells = {(row["dataset"], row["η"]): row for row in result.cells}
    assert cells["letter", "0"]["over cross-entropy"].startswith("+2.86 ")
    assert cells["letter", "0.2"]["over cross-entropy"].startswith("+0.99 ")
    assert cells["letter", "0.4"]["over cross-entropy"].endswith("level")
    assert cells["adult", "0.2"]["over GCE"].endswith("behind")
    assert result.notes["both"] == "Ahead of both cross-entropy and MAE (minimax): nowhere."


def test_other_losses_have_columns_after_the_paper_s():
    pairs = [("mgce", (0.9, 0.8, 0.7)), ("ce", (0.88, 0.79, 0.67)), ("sce", (0.92, 0.83, 0.76))]
    runs = [as_run(*(letter(m, 1.4, seed, 0.9, a) for m, values in pairs for seed, a in enumerate(values)))]
    result = advantage.render(runs)
    (row,) = result.cells
    over = [name for name in row if name.startswith("over")]
    assert over == ["over cross-entropy", "over GCE", "over MAE (minimax)", "over sce"]
    assert row["over sce"].startswith("-3.67 ") and row["over GCE"] == ""
    assert result.notes["sce"].startswith("Against sce, MGCE is ")
    p = [stats.ttest_1samp(differences, 0).pvalue for differences in ([2, 1, 3], [-2, -3, -6])]
    assert [row["p_holm"] for row in result.numbers] == pytest.approx([2 * min(p), max(2 * min(p), max(p))])


def test_seeds_are_paired_and_images_are_shown():
    pairs = [("mgce", (0.9, 0.8, 0.7)), ("ce", (0.88, 0.79, 0.67))]
    runs = [as_run(*(letter(m, 1.4, seed, 0.9, a) for m, values in pairs for seed, a in enumerate(values)))]
    runs += [finished("mgce", 1.4, 0, accuracy=0.8), finished("gce", 1.4, 0, accuracy=0.7)]
    result = advantage.render(runs)
    (image, table) = result.numbers
    assert (image["dataset"], image["over"], image["seeds"], image["p"]) == ("cifar10", "gce", 1, None)
    assert table["points"] == pytest.approx(2) and table["p"] == pytest.approx(stats.ttest_1samp([2, 1, 3], 0).pvalue)
    assert result.cells[0]["over GCE"] == "+10.00, one seed" and result.cells[0]["β fixed"] == "mgce 1.4, gce 1.4"
    assert result.notes.keys() == {"ce"}
    assert advantage.render([]) is None and advantage.render(runs[1:2]) is None
