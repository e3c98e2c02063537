import functools
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.metrics import accuracy_score

from commands import mgce
from mgce.desk.cli import demo
from mgce.estimators import load

NAMES = [f"iris{end}" for end in (".csv", ".html", ".mgce", ".new.csv", ".right.csv", ".suspects.csv")]


@pytest.fixture
def quick(monkeypatch):
    """Have the demonstration fit one quick model."""
    monkeypatch.setattr(demo, "fit", functools.partial(demo.fit, model="linear"))


def shown(words, name):
    return re.search(rf"{re.escape(name)} +([\d.]+%|\d+ of \d+)", words)[1]


def test_what_was_found_is_what_the_files_say(quick, tmp_path):
    done = mgce("demo", "--dataset", "iris", "--seed", "3", "--out-dir", "here", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == NAMES
    table, new, right = (pd.read_csv(tmp_path / f"here/iris{end}.csv") for end in ("", ".new", ".right"))
    assert right["given"].tolist() == table["label"].tolist() and right["row"].tolist() == [*range(1, len(table) + 1)]
    is_wrong = right["given"] != right["right"]
    X, y, X_new = table.drop(columns="label"), table["label"], new.drop(columns="label")
    model = load(tmp_path / "here/iris.mgce")
    found = {
        "mgce fit": model.predict(X_new),
        "random forest": RandomForestClassifier(random_state=0).fit(X, y).predict(X_new),
        "gradient boosting": HistGradientBoostingClassifier(random_state=0).fit(X, y).predict(X_new),
    }
    for name, predicted in found.items():
        assert shown(done.stdout, f"new rows, {name}") == f"{accuracy_score(new['label'], predicted):.1%}"
    suspects = pd.read_csv(tmp_path / "here/iris.suspects.csv")
    suspects = suspects.loc[suspects["given"] != suspects["suggested"], "row"]
    for first in (20, 50):
        among = suspects[:first]
        said = f"{is_wrong[among - 1].sum()} of {len(among)}"
        assert shown(done.stdout, f"the first {first} suspects") == said
    assert shown(done.stdout, "whole table") == f"{is_wrong.sum()} of {len(table)}"
    assert "\nwrong labels in the whole table  " in done.stdout.replace("\n ", "\n")  # names begin in one column
    # A wrong prediction agrees with a label at 0.3 / 2, a right one at 0.7.
    agrees = np.where(found["mgce fit"] == new["label"], 0.7, 0.15)
    assert shown(done.stdout, "on the new rows") == f"{1 - agrees.mean():.1%}"
    assert "The bound held." in done.stdout and done.stdout.endswith("\nmgce fit FILE.csv --target COLUMN\n")


def test_it_prints_what_mgce_fit_prints(quick, tmp_path, monkeypatch):
    whole = mgce("demo", "--dataset", "iris", folder=tmp_path).stdout
    command = re.search(r"^mgce (fit .*)$", whole, re.MULTILINE)[1].split()
    alone = mgce(*command, "--model", "linear", folder=tmp_path)
    assert alone.returncode == 0, alone.stderr
    printed = alone.stdout.partition("Took ")[0]
    assert printed.startswith("Accuracy: on 28 rows that it had not seen") and printed in whole


def test_a_bound_that_did_not_hold_is_said(quick, tmp_path, monkeypatch):
    honest = demo.found
    monkeypatch.setattr(demo, "found", lambda *given: demo.Found(honest(*given).accuracy, [(1, 20), (2, 50)], 0.2, 0.3))
    said = " ".join(mgce("demo", "--dataset", "iris", folder=tmp_path).stdout.split())
    assert "bound on disagreement with such labels 20.0%" in said and "The bound did not hold" in said


def test_quiet_prints_nothing(quick, tmp_path):
    done = mgce("demo", "--dataset", "iris", "--quiet", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "") and (tmp_path / "mgce-demo/iris.right.csv").is_file()


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    done = mgce("demo", "--out-dir", "file", folder=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("Error: Expected `out_dir` to be the path of a folder")
