import pytest

from mgce.experiments.store import Run, Runs


def test_runs_come_back_from_folders_and_from_lines(tmp_path):
    run = Run({"a": 1}, [{"x": 0.1}, {"x": 0.2}], {"seconds": 3.0})
    store = Runs(tmp_path)
    store.write(run)
    store.write(Run({"a": 1}, [{"x": 9.0}], {}))  # the first stays
    assert store.read() == {run.name: run}
    store.pack()
    for path in (tmp_path / "runs" / run.name).iterdir():
        path.unlink()
    (tmp_path / "runs" / run.name).rmdir()
    assert store.read() == {run.name: run}


def test_a_damaged_run_is_named_and_a_half_written_one_is_not_there(tmp_path):
    store = Runs(tmp_path)
    store.write(run := Run({"a": 1}, [{"x": 0.1}], {}))
    (tmp_path / "runs" / ".half").mkdir()
    assert list(store.read()) == [run.name]
    (tmp_path / "runs" / run.name / "records.jsonl").write_text('{"x": 0.')
    with pytest.raises(ValueError, match=f"{run.name}/records.jsonl"):
        store.read()
