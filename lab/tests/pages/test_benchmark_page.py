"""The figures on the page are those that were measured and saved."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from mgce_lab.engine.lines import Lines
from mgce_lab.engine.store import Runs
from mgce_lab.studies import (
    checked_rows,
    cleaning,
    cleaning_sources,
    demo_seeds,
    estimators_page,
    human_noise,
    human_sets,
    losses_picture,
    page,
    shared_looks,
)
from mgce_lab.studies.gpu import page as gpu_page

ROOT = Path(__file__).parents[3]
RESULTS = json.loads((ROOT / page.CPU).read_text())
KERNELS = [json.loads(file.read_text()) for file in sorted((ROOT / page.KERNELS).glob("*.json"))]
NAMED = json.loads((ROOT / page.NAMED).read_text())
PROBS = json.loads((ROOT / page.PROBS).read_text())
ON_GPU = gpu_page.read(ROOT / page.GPU)

RENDERED = page.render(RESULTS, NAMED, PROBS, ON_GPU)


def test_page_is_the_rendering_of_the_saved_results():
    assert (ROOT / page.PAGE).read_text() == RENDERED


def test_table_of_certificates_under_the_noise_of_people_is_that_of_its_results():
    document = json.loads((ROOT / "results/certificates/human-noise.json").read_text())
    assert human_noise.render(document["cells"]) in (ROOT / "docs/lab/certificates.md").read_text()


def test_table_of_looks_that_are_shared_out_is_that_of_its_results():
    record = json.loads((ROOT / "results/certificates/shared-looks.json").read_text())
    assert len(record) == 36 and shared_looks.render(record) in (ROOT / "docs/lab/certificates.md").read_text()


def test_table_of_sources_that_save_looks_is_that_of_its_results_and_a_better_source_saves_more():
    records = Lines(ROOT / "results/certificates/cleaning-sources.jsonl", "table").read()
    assert cleaning_sources.render(records) in (ROOT / "docs/commands/clean.md").read_text()
    of = {(one["table"], one["source"], one["way"]): one["looks"] for one in records}
    for number in {one["table"] for one in records}:
        looks = [of[number, None, "column"], *(of[number, source, "labels"] for source in cleaning_sources.SOURCES)]
        assert looks == sorted(looks, reverse=True)
    assert all(stats.binom.sf(round(1000 * one["false"]) - 1, 1000, 0.05) > 0.05 for one in records)


def test_the_fewest_looks_of_an_exact_bound_are_those_that_find_one_of_enough_wrong_rows():
    # No row is wrong, and more than 150 may not be: some look has to be at one of any 151 rows.
    needed = 3000 * (1 - 0.05 ** (1 / 151))
    assert needed <= cleaning.fewest(np.arange(3000), np.zeros(3000, bool)) <= needed + 15
    assert cleaning.fewest(np.arange(3000), np.arange(3000) >= 1000) > 2000 - 150


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        (
            [0.05] * 6,
            "No bound from checked rows, with or without `anytime`, was false significantly more often than 5 %",
        ),
        ([0.063] + [0.05] * 5, "No bound"),  # alone, a binomial test would find it
        ([0.08] + [0.05] * 5, "1 of 6 bounds from checked rows, with or without `anytime`, was"),
        ([0.065] * 3 + [0.08] * 3, "3 of 6 bounds from checked rows, with or without `anytime`, were"),
        ([0.2] * 6, "6 of 6 bounds"),
    ],
)
def test_the_sentence_on_checked_rows_tests_each_share_of_false_bounds(shares, said):
    widths = [
        dict(zip(human_noise.OURS_FALSE, pair, strict=True)) for pair in zip(shares[::2], shares[1::2], strict=True)
    ]
    assert human_noise.sentence(
        [{"looks": 1000, "widths": widths[:2]}, {"looks": 1000, "widths": widths[2:]}]
    ).startswith(said)
    assert stats.binomtest(63, 1000, 0.05, alternative="greater").pvalue < human_noise.LEVEL


def test_table_of_sets_under_the_noise_of_people_is_that_of_its_results():
    document = json.loads((ROOT / "results/certificates/sets.json").read_text())
    assert human_sets.render(document["cells"]) in (ROOT / "docs/lab/certificates.md").read_text()
    document["cells"][0]["mean coverage"] += 0.1
    assert human_sets.render(document["cells"]) not in (ROOT / "docs/lab/certificates.md").read_text()


def test_the_picture_of_checked_rows_is_the_rendering_of_its_results():
    found = json.loads(checked_rows.RESULTS.read_text())
    assert checked_rows.PICTURE.read_text() == checked_rows.render(found)
    found["widths"][0]["mean bound"] += 0.1
    assert checked_rows.PICTURE.read_text() != checked_rows.render(found)


def test_page_of_the_estimators_is_the_rendering_of_their_results():
    fit_times = json.loads((ROOT / estimators_page.FIT_TIMES).read_text())
    assert (ROOT / estimators_page.PAGE).read_text() == estimators_page.render(fit_times)
    fit_times["growth"][0]["seconds"]["MGCEClassifier"] *= 2
    assert (ROOT / estimators_page.PAGE).read_text() != estimators_page.render(fit_times)


def test_a_changed_result_changes_the_page():
    results = json.loads(json.dumps(RESULTS))
    results["grid"]["cells"][0]["seconds"]["1.4"] *= 2
    assert page.render(results, NAMED, PROBS, ON_GPU) != RENDERED
    del results["head"]
    with pytest.raises(KeyError):
        page.render(results, NAMED, PROBS, ON_GPU)
    kernels = json.loads(json.dumps(KERNELS))
    kernels[0]["cells"][0]["this"] *= 2
    assert page.answer(RESULTS, kernels) != page.answer(RESULTS, KERNELS)
    named = json.loads(json.dumps(NAMED))
    named["cells"][0]["seconds"]["gce"] *= 2
    assert page.render(RESULTS, named, PROBS, ON_GPU) != RENDERED
    probs = json.loads(json.dumps(PROBS))
    probs["cells"][0]["both"]["minimax_probs"] *= 2
    assert page.render(RESULTS, NAMED, probs, ON_GPU) != RENDERED


def test_the_picture_of_losses_is_the_rendering_of_their_records_and_ends_at_the_figures_of_the_page():
    runs = list(Runs(ROOT / losses_picture.RECORDS).read().values())
    picture = (ROOT / losses_picture.PICTURE).read_text()
    assert picture == losses_picture.render(runs)
    page = _table("docs/protocols.md", "| loss | letter, 40 % |")
    shown = {"trimmed CE": "ce+trim", "NCE+AGCE": "nce+agce", "GCE": "gce", "cross-entropy": "ce"}
    shown["MGCE, beta 1.05"] = "mgce 1.05"
    assert set(shown) == {name for _, _, name, *_ in losses_picture.LINES}
    for name, loss in shown.items():
        last = re.search(rf"[:;] {re.escape(name)} [\d.]+ at best and ([\d.]+) at last", picture).group(1)
        assert last == page[f"`{loss}`"][4].strip("*")  # 2,000 of MNIST, 40 %
    assert picture != losses_picture.render([run for run in runs if run.specification["seed"] == 0])


def _table(path, begins):
    lines = itertools.dropwhile(lambda line: not line.startswith(begins), (ROOT / path).read_text().splitlines())
    rows = [line.split("|")[1:-1] for line in itertools.takewhile(lambda line: line.startswith("|"), lines)]
    return {name.strip(): [cell.strip() for cell in cells] for name, *cells in rows[2:]}


def test_the_seeds_of_the_demonstration_are_means_by_data_set_and_rate():
    found = [("wine", 0.3, 0, 90.0, 20, True), ("wine", 0.3, 1, 95.0, 17, False), ("iris", 0.2, 0, 80.0, 19, True)]
    keys = ("dataset", "rate", "seed", "mgce fit", "wrong of first 20", "bound held")
    lines = demo_seeds.means([dict(zip(keys, one, strict=True)) for one in found]).splitlines()
    assert lines[0] == "| data set | wrong | mgce fit | wrong of first 20 | bounds that held |"
    assert lines[2:] == ["| wine | 30% | 92.5 | 18.5 | 1 of 2 |", "| iris | 20% | 80.0 | 19.0 | 1 of 1 |"]
