"""The committed record of certificates: every cell is within binomial error of delta, and every cell can fail."""

import dataclasses
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from mgce.risk import Bounds, certify
from mgce.risk.certificate import CAUTION, FALSE_WHERE_BROKEN
from mgce_lab.soak import certificates
from mgce_lab.soak.certificates import KINDS, RECORD
from mgce_lab.soak.certificates_page import BY_ROW, DOCS, STRENGTHS, at, beyond, broken, misses, shares_false
from mgce_lab.soak.worlds import ATOMS, InstanceNoise, World


def test_no_cell_has_more_misses_than_a_valid_bound():
    record = json.loads(RECORD.read_text())
    drawn = {name: cell for name, cell in record.items() if cell["draws"]}
    assert {name.split("/")[0] for name in drawn} >= set(KINDS) and len(drawn) > 50
    far = [name for name, cell in drawn.items() if beyond(cell, float(name.split("/")[3]))]
    # One cell in a thousand of valid bounds is beyond by chance.
    assert len(far) <= 1, far


def too_low(certificate):
    """Return a certificate that prints 0 for each bound that it has, under the name where it has it."""
    found = certificate.assumed
    zeros = Bounds(*(None if value is None else 0.0 for value in dataclasses.astuple(found)))
    plain = Bounds() if certificate.conditional else zeros
    conditional = certificate.conditional and zeros
    return dataclasses.replace(certificate, **dataclasses.asdict(plain), conditional=conditional, refuted=None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_that_is_printed_and_false_counts_as_a_miss(kind, monkeypatch):
    def empty_sets(*args, **options):
        return SimpleNamespace(predict=lambda probs: np.zeros(probs.shape, dtype=bool))

    real = {name: getattr(certificates, name) for name in ("certify", "certify_each")}
    monkeypatch.setattr(certificates, "certify", lambda *a, **o: too_low(real["certify"](*a, **o)))
    each = lambda *a, **o: {name: too_low(part) for name, part in real["certify_each"](*a, **o).items()}  # noqa: E731
    monkeypatch.setattr(certificates, "certify_each", each)
    for name in ("betting_upper_sequence", "drift_upper_sequence"):
        monkeypatch.setattr(certificates, name, lambda values, delta: np.zeros(len(values)))
    monkeypatch.setattr(certificates, "calibrate", empty_sets)
    draw = KINDS[kind][1](np.random.default_rng(0), World.of(10), 200, 0.05)
    assert draw.get("miss", draw["bound"] < draw["truth"]) == 1
    if kind in BY_ROW:
        assert all(draw[f"condition false {at(strength)}"] for strength in STRENGTHS)


@pytest.mark.parametrize("kind", BY_ROW)
def test_the_recorded_draws_of_noise_by_row_are_drawn_again(kind):
    record, cell = json.loads(RECORD.read_text()), {"draws": 0, "misses": 0.0, "sums": {}}
    name, where = f"{kind}/2/50/0.2", (2, 50, 0.2)
    world = World.of(2)
    certificates.extend(cell, kind, world, where)
    again = {key: value / cell["draws"] for key, value in cell["sums"].items()} | {"miss": cell["misses"] / 100}
    of_record = record[name]
    recorded = {key: value / of_record["draws"] for key, value in of_record["sums"].items()}
    recorded["miss"] = of_record["misses"] / of_record["draws"]
    for key, share in recorded.items():
        assert again[key] == pytest.approx(share, abs=5 * math.sqrt(0.25 / cell["draws"])), key


def test_the_certificate_states_the_share_of_false_conditional_bounds_of_the_record():
    record = json.loads(RECORD.read_text())
    worst = max(max(shares_false(record, kind, strength).values()) for kind in BY_ROW for strength in STRENGTHS[1:])
    assert math.ceil(100 * worst) == round(100 * FALSE_WHERE_BROKEN)
    rng = np.random.default_rng(0)
    right = rng.integers(3, size=400)
    probs = np.eye(3)[right] * 0.7 + 0.1
    given = np.where(rng.random(400) < 0.2, (right + 1) % 3, right)
    conditional, plain = certify(given, probs, noise_rate=0.1), certify(given, probs, noise_type="any", noise_rate=0.2)
    assert conditional.conditional and CAUTION in str(conditional) and conditional.to_dict()["caution"] == CAUTION
    assert plain.caution == "" and CAUTION not in str(plain)


def test_the_page_has_the_tables_of_the_record():
    record, page = json.loads(RECORD.read_text()), (DOCS / "lab" / "certificates.md").read_text()
    titles = {kind: title for kind, (title, _) in KINDS.items()}
    drawn = {name: cell for name, cell in record.items() if name.split("/")[0] in titles}
    assert misses(drawn, titles, list(KINDS)) in page and broken(drawn, titles) in page


def test_worlds_have_an_error_to_bound():
    for k in (2, 10, 100):
        assert 0.1 < World.of(k).error <= 0.15


@pytest.mark.parametrize(("k", "strength", "pair"), [(2, 1.0, 0.0), (10, 1.0, 1.0), (10, 0.5, 0.5), (100, 0.0, 0.0)])
def test_noise_by_row_is_drawn_as_its_transition_matrix_and_its_disagreements_say(k, strength, pair):
    world, repetitions = World.of(k), 2000
    noise = InstanceNoise.of(world, 0.15, strength, pair)
    atoms = np.tile(np.arange(ATOMS), repetitions)
    right, given = world.label[atoms], noise.labels(np.random.default_rng(0), atoms)
    counts = np.zeros((k, k))
    np.add.at(counts, (right, given), 1)
    drawn = counts / counts.sum(1, keepdims=True)
    np.testing.assert_allclose(drawn, noise.transition, atol=5 * np.sqrt(0.25 / counts.sum(1).min()))
    tolerance = 5 * np.sqrt(0.25 / atoms.size)
    assert abs((given != right).mean() - 0.15) < tolerance
    assert abs((given != world.probs[atoms].argmax(1)).mean() - noise.disagreement) < tolerance
    wrong = (given != right).reshape(repetitions, ATOMS).mean(0)
    sure = world.probs.max(1) * (world.probs.argmax(1) == world.label)
    least, most = wrong[sure > np.median(sure)].mean(), wrong[sure <= np.median(sure)].mean()
    assert most - least == pytest.approx(0.225 * strength, abs=0.01)
