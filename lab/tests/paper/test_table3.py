from paper.letter_records import as_run, letter

from mgce_lab.engine.specification import document
from mgce_lab.engine.store import run_name
from mgce_lab.paper import figure6, table3
from mgce_lab.paper.plan import BETAS, Options


def test_beta_is_chosen_for_each_seed_and_differences_are_said():
    run = as_run(
        letter("mgce", 1.4, 0, 0.7, 0.90),
        letter("mgce", 2.0, 0, 0.8, 0.88),
        letter("mgce", 1.4, 1, 0.9, 0.86),
        letter("mgce", 2.0, 1, 0.1, 0.10),
        letter("ce", "inf", 0, 0.9, 0.8619),
    )
    result = table3.render([run])
    rows = {(row["noise_rate"], row["method"]): row for row in result.numbers}
    assert rows[0.2, "mgce"]["betas"] == "1.4 2" and abs(rows[0.2, "mgce"]["accuracy"] - 87) < 1e-12
    assert rows[0.2, "mgce"]["paper_accuracy"] == 87.29
    assert rows[0.2, "gce"]["accuracy"] is None and len(rows) == 15
    # ce: the paper has 86.19 ± 0.21 and 30.72 ± 0.28
    assert "letter/0.2/ce/accuracy" not in result.notes
    assert "10.00 against 30.72 ± 0.28, below the paper (p < 0.001)" in result.notes["letter/0.2/ce/ece_h"]


def test_corrected_mae_stands_beside_no_published_calibration_error():
    run = as_run(letter("mgce", 1.0, 0, 0.9, 0.87), letter("mae_published", 1.0, 0, 0.9, 0.87))
    rows = {row["method"]: row for row in table3.render([run]).numbers if row["noise_rate"] == 0.2}
    assert rows["mgce@1"]["paper_ece_h"] is None and rows["mae_published"]["paper_ece_h"] == 81.5


def test_other_losses_have_rows_below_the_paper_s():
    accuracy = {"nce+rce": 0.8, "mgce": 0.9, "sce": 0.7, "ce": 0.9, "mgce@1": 0.8}
    result = table3.render([as_run(letter(method, "inf", 0, 0.9, value)) for method, value in accuracy.items()])
    rows = [row for row in result.numbers if row["noise_rate"] == 0.2]
    assert [row["method"] for row in rows] == ["mgce", "gce", "ce", "mgce@1", "mae_published", "sce", "nce+rce"]
    assert abs(rows[5]["accuracy"] - 70) < 1e-12 and rows[5]["paper_accuracy"] is None
    assert {row["method"] for row in result.numbers if row["noise_rate"] == 0.4} == {row["method"] for row in rows[:5]}
    assert "The losses below the paper's" in result.caption
    assert "The losses below the paper's" not in table3.render([as_run(letter("ce", "inf", 0, 1, 1))]).caption


def test_nothing_is_rendered_of_no_runs():
    assert table3.render([]) is None and figure6.render([]) is None


def test_plans():
    specs = table3.plan(Options(seeds=5))
    assert len(specs) == 4 * 3 * 5 * 4 and len(BETAS) == 8
    together = table3.plan(Options(seeds=5, together=True))
    assert len(together) == 4 * 3 and len(together[0].members) == 18 and together[0].seeds == (0, 1, 2, 3, 4)
    names = {run_name(document(spec)) for spec in specs}
    assert {run_name(document(spec)) for spec in figure6.plan(Options(seeds=5))} < names


def test_figure6_has_its_betas_whatever_is_asked_for():
    plan = figure6.plan(Options(datasets=("letter",), seeds=1, betas=(2.0,)))
    assert {run.members for run in plan} == {
        (("mgce", 1.05), ("mgce", 1.18), ("mgce", 1.4), ("mgce", 2.0)),
        (("gce", 1.4), ("gce", 2.0)),
        (("mgce", 1.0),),
    }


def test_one_beta_for_all_seeds_stands_beside_that_of_each():
    run = as_run(
        letter("mgce", 1.4, 0, 0.7, 0.90),
        letter("mgce", 2.0, 0, 0.8, 0.88),
        letter("mgce", 1.4, 1, 0.9, 0.86),
        letter("mgce", 2.0, 1, 0.6, 0.10),
        letter("gce", 1.4, 0, 0.9, 0.5),
    )
    rows = {row["method"]: row for row in table3.render([run]).numbers if row["noise_rate"] == 0.2}
    assert rows["mgce"]["one_beta"] == 1.4 and abs(rows["mgce"]["one_beta_accuracy"] - 88) < 1e-12  # .8 against .7
    assert rows["gce"]["one_beta"] is None and rows["gce"]["one_beta_accuracy"] is None


def test_ties_are_said():
    def run(**loss):
        return as_run(
            letter("mgce", 2.0, 0, 0.8, 0.88) | {name: value[0] for name, value in loss.items()},
            letter("mgce", 1.4, 0, 0.8, 0.90) | {name: value[1] for name, value in loss.items()},
            letter("mgce", 1.4, 1, 0.8, 0.90),
            letter("mgce", 2.0, 1, 0.7, 0.90),
        )

    assert "1 of 2 choices of β for a seed are ties" in table3.render([run()]).caption
    assert "decided 0, and 1, of runs" in table3.render([run()]).caption
    with_loss = table3.render([run(validation_brier=(0.1, 0.2))])
    assert "decided 1, and 0, of runs" in with_loss.caption
    assert [row["betas"] for row in with_loss.numbers if row["method"] == "mgce"][1] == "1.4 2"


def test_the_accuracy_of_mae_counts_once():
    run = as_run(letter("mgce", 1.0, 0, 0.9, 0.5), letter("mae_published", 1.0, 0, 0.9, 0.5))
    result = table3.render([run])
    assert result.notes.keys() == {"letter/0.2/mgce@1/accuracy", "letter/0.2/mae_published/ece_h"}
    assert result.agreement == "Table 3: 0 of 2 numbers agree with the paper's, 2 differ."
