"""`mgce fit --label-columns` and `--annotations`, from the files to the report."""

import json

import numpy as np
import pandas as pd
import pytest

from mgce.desk.review.decision_file import COLUMNS
from mgce.labels.annotators import CAUTION

QUICK = ("--model", "linear")


@pytest.fixture
def labelled(tmp_path):
    """Write a table with labels of three annotators; return it."""
    rng = np.random.default_rng(0)
    y = np.repeat(["yes", "no"], 60)
    frame = pd.DataFrame(rng.normal(size=(120, 2)) + (y == "yes")[:, None] * 3, columns=["a", "b"]).round(3)
    for name, rate in (("ann", 0.05), ("bob", 0.2), ("<cy>", 0.4)):
        frame[name] = np.where(rng.random(120) < rate, np.where(y == "yes", "no", "yes"), y)
    frame.loc[:2, ["ann", "bob", "<cy>"]] = None
    frame.to_csv(tmp_path / "table.csv", index=False)
    return frame


@pytest.mark.slow
def test_three_columns_of_labels(mgce, labelled, tmp_path):
    code, _, errors = mgce("fit", "table.csv", "--label-columns", "ann,bob,<cy>", *QUICK, "--json", "fit.json")
    assert code == 0, errors
    said = json.loads((tmp_path / "fit.json").read_text())
    assert [one["name"] for one in said["annotators"]] == ["ann", "bob", "<cy>"]
    assert said["annotators"][0]["estimated_accuracy"] > said["annotators"][2]["estimated_accuracy"]
    assert all(lower < upper for lower, upper in (one["estimated_range"] for one in said["annotators"]))
    assert said["target"] == "consensus" and "ann" not in said["columns"]
    assert any("no label" in note for note in said["notes"])
    page = (tmp_path / "table.html").read_text()
    assert (
        "The annotators" in page
        and CAUTION in page
        and "95 %" not in page.split("The annotators")[1].split("</table>")[0]
    )
    assert "&lt;cy&gt;" in page and "<cy>" not in page
    suspects = pd.read_csv(tmp_path / "table.suspects.csv")
    assert {"ann", "bob", "<cy>"} <= set(suspects.columns) and len(suspects) == 117
    consensus = pd.read_csv(tmp_path / "table.consensus.csv")
    assert len(consensus) == 120 and consensus.loc[consensus["row"] <= 3, "ann"].isna().all()

    doubt = suspects.merge(consensus[["row", "p_right"]], on="row")["p_right"]
    assert (doubt.diff().dropna() >= -1e-9).all() and suspects["p_wrong"].iloc[0] > 0.05
    check = next(place for place, name in enumerate(suspects.columns) if name.startswith("row_check"))
    assert list(suspects.columns[check + 1 : check + 4]) == ["ann", "bob", "<cy>"]  # before the features
    doubtful = suspects["p_wrong"] > 0.01
    assert (suspects.loc[doubtful, "suggested"] != suspects.loc[doubtful, "given"]).all()
    code, _, errors = mgce("review", "table.suspects.csv", "--suspects", "3", "--random", "0")
    assert code == 0, errors
    shown = (tmp_path / "table.review.html").read_text()
    first = suspects.iloc[0]
    assert all(text in shown for text in ("ann", "bob", f'"{first["ann"]}"', str(first["row"])))


@pytest.mark.nightly
def test_decided_rows_are_no_suspects(mgce, labelled, tmp_path):
    fit = ("fit", "table.csv", "--label-columns", "ann,bob,<cy>", *QUICK)
    assert mgce(*fit)[0] == 0
    first = pd.read_csv(tmp_path / "table.suspects.csv", dtype=str).iloc[0]
    cells = first[["key", "row", "line", "given"]].to_dict() | {"decision": "other", "label": first["suggested"]}
    cells |= {"shown_as": "suspect", "draw": first["draw"], "draw_probability": first["draw_probability"]}
    pd.DataFrame([cells], columns=COLUMNS).to_csv(tmp_path / "d.csv", index=False)
    code, _, errors = mgce(*fit, "--checked", "d.csv")
    assert code == 0, errors
    again = pd.read_csv(tmp_path / "table.suspects.csv", dtype=str).set_index("key").loc[first["key"]]
    assert again["given"] == again["suggested"] == first["suggested"] and int(again["rank"]) > 10


@pytest.mark.slow
def test_a_long_file(mgce, labelled, tmp_path):
    long = labelled[["ann", "bob"]].stack().rename("label").rename_axis(["row", "annotator"]).reset_index()
    long.assign(row=long["row"] + 1).to_csv(tmp_path / "long.csv", index=False)
    labelled[["a", "b"]].to_csv(tmp_path / "bare.csv", index=False)
    code, said, errors = mgce("fit", "bare.csv", "--annotations", "long.csv", *QUICK, "--target", "label")
    assert code == 0, errors
    assert (
        "ann: 117 labels, an estimated " in said
        and CAUTION in " ".join(said.split())
        and "--annotations long.csv" in said
    )
    suspects = pd.read_csv(tmp_path / "bare.suspects.csv")
    assert suspects["given labels"].str.contains("ann: ").all()


def test_options_that_contradict(refuses, labelled):
    refuses("left out with label columns", "fit", "table.csv", "--label-columns", "ann,bob", "--annotations", "x.csv")
    refuses("left out with several labels", "fit", "table.csv", "--label-columns", "ann,bob", "--mended", "m.csv")
    refuses("dan", "fit", "table.csv", "--label-columns", "ann,dan")
    said = "Expected `annotator` to be given with a file of annotations"
    refuses(said, "fit", "table.csv", "--label-columns", "ann,bob", "--annotator", "who")


def test_the_results_do_not_overwrite_the_consensus(refuses, labelled):
    named = ("--label-columns", "ann,bob", "--json", "table.consensus.csv")
    refuses("Expected `json` to be the path of a file that nothing else uses", "fit", "table.csv", *named)
