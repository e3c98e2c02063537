"""The methods of a comparison: names of losses, and NAME@BETA for one at a fixed beta."""

import math

import pytest

from mgce.kernels import dispatch
from mgce_lab.compare.compare import Comparison, run
from mgce_lab.data import load
from mgce_lab.engine.methods import KNOWN, MINIMAX_MAE, at_betas
from mgce_lab.losses import LOSSES
from mgce_lab.paper import table3
from mgce_lab.paper.plan import Options


@pytest.mark.parametrize("method", ["ce@2", "mae@1", "nothing@1", "mgce@", "mgce@one", "mgce@0.9", "mgce@nan", "@1"])
def test_only_a_loss_with_a_beta_has_a_fixed_one(method):
    what = "names of losses, or NAME@BETA of one that has a beta, from 1 to inf, as in mgce@1"
    for plan in (Comparison, Options):
        with pytest.raises(ValueError) as raised:
            plan(methods=("mgce", method))
        said, hint, name = str(raised.value).partition(" Did you mean ")
        assert said == f"Expected `methods` to be {what}, but got {method!r}."
        assert not hint or name.strip("'?") in KNOWN


def test_every_loss_with_a_beta_may_have_a_fixed_one():
    for name, loss in LOSSES.items():
        if "beta" in loss.hyperparameters:
            (found,) = at_betas(f"{name}@inf", (1.4, 2.0))
            assert (found.name, found.beta) == (name, math.inf)
    assert {MINIMAX_MAE, *LOSSES} == {*KNOWN}


def test_mae_is_that_of_softmax_and_cross_entropy_is_every_one_at_infinity(monkeypatch):
    """GCE at beta = 1 and infinity; networks of one seed begin alike."""
    # A kernel, and plain operations for many betas at once, differ in the last bits.
    monkeypatch.setattr(dispatch, "is_commonest", lambda *_: False)
    methods = ("mae", "gce@1", "mgce@1", "ce", "gce@inf", "mgce@inf")
    records = run(load("wine"), Comparison(methods=methods, seeds=1, epochs=5, hidden=8))
    assert [record["method"] for record in records] == [*methods]
    mae, gce, minimax, *entropies = (
        {key: value for key, value in record.items() if key not in ("method", "beta")} for record in records
    )
    assert mae["test_accuracy_by_epoch"] == gce["test_accuracy_by_epoch"] and mae["ece_h"] == gce["ece_h"]
    assert minimax != gce and entropies[0] == entropies[1] == entropies[2]


def test_the_paper_has_mgce_at_beta_1_in_a_row_of_its_own():
    options = Options(datasets=("letter",), methods=("mgce", MINIMAX_MAE, "mgce@1.4"), seeds=1, together=True)
    for planned in table3.plan(options):
        assert planned.members == (*(("mgce", beta) for beta in options.betas), ("mgce", 1.0))
    sentence = "Expected `betas` to be above 1 for mgce, which has mgce@1 in a row of its own, but got 1."
    with pytest.raises(ValueError) as raised:
        Options(betas=(1.0, 1.4))
    assert str(raised.value) == sentence
    assert Options(methods=("gce", MINIMAX_MAE), betas=(1.0, 1.4)).members("gce") == [("gce", 1.0), ("gce", 1.4)]


@pytest.mark.parametrize("name", ["mgec", "mgec@2"])
def test_a_mistyped_method_is_answered_with_the_nearest(name):
    with pytest.raises(ValueError, match="Did you mean 'mgce'"):
        at_betas(name, (1.4,))
