"""The committed record of certificates: every cell is within binomial error of delta."""

import json

import numpy as np
import pytest
from soak.certificates import KINDS, RECORD
from soak.certificates_page import beyond
from soak.worlds import ATOMS, InstanceNoise, World


def test_no_cell_has_more_misses_than_a_valid_bound():
    record = json.loads(RECORD.read_text())
    drawn = {name: cell for name, cell in record.items() if cell["draws"]}
    assert {name.split("/")[0] for name in drawn} >= set(KINDS) and len(drawn) > 50
    far = [name for name, cell in drawn.items() if beyond(cell, float(name.split("/")[3]))]
    # One cell in a thousand of valid bounds is beyond by chance.
    assert len(far) <= 1, far


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
