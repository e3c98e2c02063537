"""The order of a table's rows says nothing: a shuffled file gives the same model, figures and suspects."""

import json

import numpy as np
import pandas as pd
import pytest

from grids import grid

LEFT_OUT = ("table", "file", "files", "notes", "seconds")
FIT = ("--target", "sick", "--id", "person", "--jobs", "1", "--json", "-")


@pytest.fixture(params=["copied", pytest.param("drawn", marks=pytest.mark.slow)])
def tables(people, tmp_path, request):
    """Write a table and the same one sorted by its label; some of its rows are copied, or none is."""
    if request.param == "copied":
        people = pd.concat([people, people.iloc[:30], people.iloc[:10]], ignore_index=True)
        people["person"] = [f"{i:04d}" for i in range(len(people))]
    people.to_csv(tmp_path / "drawn.csv", index=False)
    people.sort_values(["sick", "age"]).to_csv(tmp_path / "sorted.csv", index=False)
    return "drawn.csv", "sorted.csv"


def by_person(path):
    return pd.read_csv(path, dtype={"person": str}).set_index("person").sort_index()


def figures(value):
    """Leave out what a run takes and the names of files, and round numbers: sums of another order differ by 1e-16."""
    if isinstance(value, dict):
        return {name: figures(each) for name, each in value.items() if name not in LEFT_OUT}
    if isinstance(value, list):
        return [figures(each) for each in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


@grid(
    "model, tables",
    ["forest", "linear"],
    ["drawn", "copied"],
    keep=lambda model, tables: (model == "forest") == (tables == "copied"),
    indirect=["tables"],
)
def test_fit_predict_and_certify_do_not_depend_on_it(mgce, people, tables, tmp_path, model):
    people.iloc[::-1].drop(columns="sick").to_csv(tmp_path / "new.csv", index=False)
    fits, suspects, predictions, certificates = [], [], [], []
    for table, other in zip(tables, tables[::-1], strict=True):
        code, output, errors = mgce("fit", table, *FIT, "--model", model, "--out", "m.mgce")
        assert code == 0, errors
        fits.append(figures(json.loads(output)))
        suspects.append(by_person(tmp_path / "m.suspects.csv").drop(columns=["expected_precision", "line", "rank"]))
        assert mgce("predict", "m.mgce", "new.csv", "--probabilities", "--out", "p.csv")[0] == 0
        predictions.append(by_person(tmp_path / "p.csv"))
        fresh = pd.read_csv(tmp_path / other, dtype={"person": str})
        fresh.assign(weight=fresh["weight"] + 0.001).to_csv(tmp_path / "fresh.csv", index=False)
        code, output, errors = mgce("certify", "m.mgce", "fresh.csv", "--bounds", "argmax", "--json", "-")
        certificates.append(json.loads(output))
    assert fits[0] == fits[1]
    pd.testing.assert_frame_equal(*suspects, rtol=1e-5)
    pd.testing.assert_frame_equal(*predictions, rtol=1e-5)
    assert len(certificates) == 2
    same = ("n", "argmax_error", "notes")
    assert [certificates[0][name] for name in same] == [certificates[1][name] for name in same]


@pytest.mark.parametrize("tables", ["copied"], indirect=True)
def test_compare_does_not_depend_on_it(mgce, tables):
    options = ("--target", "sick", "--drop", "person,nothing", "--seeds", "1", "--betas", "1.4", "--epochs", "3")
    found = []
    for table in tables:
        code, output, errors = mgce("compare", table, *options, "--methods", "mgce", "--hidden", "8", "--json", "-")
        assert code == 0, errors
        found.append(json.loads(output)["methods"])
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.parametrize("option", [("--groups", "ward", "--drop", "year"), ("--time", "year", "--drop", "ward")])
def test_rows_of_one_time_or_group_do_not_depend_on_it_either(mgce, people, tmp_path, option):
    people = people.assign(ward=np.arange(240) // 8, year=2000 + np.arange(240) // 24)
    people.to_csv(tmp_path / "drawn.csv", index=False)
    people.sort_values("age").to_csv(tmp_path / "sorted.csv", index=False)
    fits = []
    for table in ("drawn.csv", "sorted.csv"):
        code, output, errors = mgce("fit", table, *FIT, "--model", "linear", *option, "--out", "m.mgce")
        assert code == 0, errors
        fits.append(figures(json.loads(output)))
    assert fits[0] == fits[1]
