"""The committed record of certificates: every cell is within binomial error of delta."""

import json

from soak.certificates import KINDS, RECORD, World
from soak.certificates_page import beyond


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
