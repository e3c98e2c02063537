import numpy as np
import pandas as pd
import pytest

import commands


@pytest.fixture(scope="session")
def people():
    """240 rows of mixed columns with values missing; one label in ten is wrong."""
    rng = np.random.default_rng(0)
    n = 240
    age, job = rng.normal(40, 12, n).round(3), rng.choice(["baker", "nurse", "pilot"], n)
    sick = (age + 15 * (job == "nurse") > 45) ^ (rng.random(n) < 0.1)
    frame = pd.DataFrame(
        {
            "person": [f"{i:04d}" for i in range(n)],
            "age": age,
            "weight": rng.normal(75, 10, n).round(3),
            "job": job,
            "smoker": rng.random(n) < 0.3,
            "nothing": np.nan,
            "sick": np.where(sick, "yes", "no"),
        }
    )
    frame.loc[::9, "age"] = np.nan
    frame.loc[::13, "job"] = np.nan
    return frame


@pytest.fixture
def mgce(tmp_path, monkeypatch):
    """Run a command in an empty folder, and give its exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        done = commands.mgce(*arguments, folder=tmp_path, columns=120)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def refuses(mgce, tmp_path):
    """Check that a command says one sentence, exits with code 2, and writes nothing."""

    def check(sentence, *arguments):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        code, output, errors = mgce(*arguments)
        assert code == 2, errors
        assert sentence in errors and errors.startswith("Error: ") and errors.count("\n") == 1, errors
        assert output == ""
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before

    return check


@pytest.fixture(scope="session")
def model_file(tmp_path_factory, people):
    """A model fitted to the first 200 rows of people; the rest are fresh."""
    folder = tmp_path_factory.mktemp("model")
    people[:200].to_csv(folder / "people.csv", index=False)
    arguments = ["--target", "sick", "--id", "person", "--model", "linear"]
    done = commands.mgce("fit", "people.csv", *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "people.mgce"
