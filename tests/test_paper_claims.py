"""The table of claims that opens docs/paper.md: its tests exist, and its numbers are those of the committed records."""

import re
from pathlib import Path

import pytest
from benchmarks import paper_claims

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/paper.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \*\*(.+?)\*\*.* \| (.+?) \|$", PAGE, re.MULTILINE)
TESTS = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))
# What the page says, and the lines of the file that say it, with single spaces.
SAID = {
    "Of the 96 numbers of the paper's Table 3, 37 agree with ours, 48 differ and 11 are": [
        "all 96 37 agree 48 differ 11 uncertain"
    ],
    "All our accuracies that differ are above the paper's; the largest differences are on covertype": [
        "accuracy MNIST 5 agree 7 differ 0 uncertain (+0.17 to +0.37)",
        "accuracy covertype 0 agree 12 differ 0 uncertain (+2.97 to +5.20)",
        "accuracy letter 7 agree 5 differ 0 uncertain (+0.26 to +0.52)",
        "accuracy adult 3 agree 7 differ 2 uncertain (+0.23 to +2.18)",
    ],
    "covertype 2, letter 17, adult 85": [
        "covertype GCE, beta 1.4 68.50 70.18 2",
        "letter GCE, beta 1.4 68.64 78.63 17",
        "adult GCE, beta 1.4 85.61 85.86 85",
    ],
    "On covertype and adult MGCE converges more slowly: after 50 epochs GCE is more accurate.": [
        "covertype MGCE, beta 1.4 77.06",
        "covertype GCE, beta 11 77.30",
        "adult MGCE, beta 1.4 85.76",
        "adult GCE, beta 11 85.95",
    ],
    "for h: [lower](#calibration-error) in 4 and in 2 of 4 cases, higher in none; **differs** for p: lower in none": [
        "ECE of h, than cross-entropy 1 1 0 0 2 4 0 0",
        "ECE of h, than GCE 1 0 1 0 2 2 0 2",
        "ECE of p, than cross-entropy 0 1 1 0 2 0 2 2",
        "ECE of p, than GCE 0 1 1 0 2 0 3 1",
    ],
    "In three of the four cases with wrong labels (letter and adult), the SCE of h is lower than the SCE of cross": [
        "SCE of h, than cross-entropy 1 1 0 0 2 3 0 1",
    ],
    "The SCE of h is lower than the SCE of GCE in two cases, and never higher": ["SCE of h, than GCE 1 0 1 0 2 2 0 2"],
    "In the other three cases with wrong labels, the calibration of MAE and MGCE does not differ significantly.": [
        "ECE of h, than MAE (minimax) 1 0 1 2 0 0 1 3"
    ],
    "5.9 to 8.7 points at β = 1, 9.0 to 10.5 at 1.4": [
        "MNIST 0 % 8.7 9.0 ",
        "covertype 0 % 5.9 6.6 8.2 10.5",
        "letter 0 % 6.5 7.0 8.0 9.7",
        "adult 0 % 6.2 6.8 8.1 9.9",
    ],
    "the accuracy is far above 1 - V even at β = 1": ["letter 40 % 47.6", "adult 20 % 19.7"],
    "In our runs no curve 1 - V was above the accuracy": ["above the accuracy of its network in 0 of"],
}


@pytest.fixture(scope="module")
def file():
    return paper_claims.OUT.read_text(encoding="utf-8")


def test_the_file_is_that_of_the_records(file):
    assert paper_claims.text() == file


@pytest.mark.parametrize("sentence", SAID)
def test_the_numbers_of_the_page_are_those_of_the_file(sentence, file):
    assert sentence in " ".join(PAGE.split())
    for line in SAID[sentence]:
        assert line in " ".join(file.split())


def test_there_is_a_verdict_on_each_claim():
    names = ["Convexity", "Bound", "Calibrated", "Faster convergence", "Accuracy", "Calibration error", "Tightness"]
    assert [name for name, _ in ROWS] == names
    for name, verdict in ROWS:
        assert re.match(r"\*\*(agrees|differs|not tested)\*\*", verdict), name


@pytest.mark.parametrize(("path", "function"), TESTS, ids=[function for _, function in TESTS])
def test_each_test_that_is_named_exists(path, function):
    assert re.search(rf"^ *def {function}\(", (ROOT / "tests" / path).read_text(encoding="utf-8"), re.MULTILINE)
