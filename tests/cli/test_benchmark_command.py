import json

from commands import mgce
from web_pages import check_structure


def test_a_smoke_run_and_its_report(tmp_path):
    options = ["--smoke", "--methods", "ce,nce+rce", "--dataset", "wine", "--jobs", "1", "--out", "out"]
    result = mgce("benchmark", "rates", *options, folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "nce+rce" in result.stdout and "w/t/l" in result.stdout
    out = tmp_path / "out"
    check_structure((out / "report.html").read_text())
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert len(records) == 2 * 4 * 2  # losses, learning rates, seeds
    assert len(list((out / "logits").iterdir())) == 8
    again = mgce("report", "out", "--out", "again", folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again" / "rates.csv").read_bytes() == (out / "rates.csv").read_bytes()


def test_a_wrong_protocol_is_one_sentence(tmp_path):
    result = mgce("benchmark", "p3", folder=tmp_path)
    assert result.returncode == 2
    assert result.stderr == "Error: Expected `protocol` to be one of 'p1', 'p2', 'reduced', 'rates', but got 'p3'.\n"
