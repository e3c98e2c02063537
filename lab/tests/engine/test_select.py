import numpy as np

from mgce_lab.engine.select import best_candidate, one_beta


def record(beta, seed, validation, brier=None, method="mgce"):
    loss = {} if brier is None else {"validation_brier": brier}
    return {"method": method, "beta": beta, "seed": seed, "validation_accuracy": validation, **loss}


def betas(records):
    return [(r["method"], r["seed"], r["beta"]) for r in records]


def test_ties_go_to_the_least_held_out_loss():
    records = [record(2.0, 0, 0.8, 0.3), record(1.4, 0, 0.8, 0.4), record(3.0, 0, 0.7, 0.1)]
    assert betas(best_candidate(records)) == [("mgce", 0, 2.0)] == betas(one_beta(records))


def test_ties_go_to_the_smallest_beta_where_a_loss_is_missing():
    records = [record(2.0, 0, 0.8, 0.3), record(1.4, 0, 0.8), record(3.0, 0, 0.7)]
    assert betas(best_candidate(records)) == [("mgce", 0, 1.4)] == betas(one_beta(records))


def test_one_beta_is_that_of_best_mean():
    generator = np.random.default_rng(0)
    accuracy = generator.integers(40, 50, (4, 5)) / 64
    records = [record(1 + b, s, accuracy[b, s]) for b in range(4) for s in range(5)]
    means = accuracy.mean(1)
    best = 1 + int(np.flatnonzero(means == means.max())[0])
    assert betas(one_beta(records)) == [("mgce", seed, best) for seed in range(5)]
    assert betas(best_candidate(records)) == [("mgce", s, 1 + int(accuracy[:, s].argmax())) for s in range(5)]


def test_a_beta_that_some_seeds_lack_is_no_candidate():
    records = [record(1.4, 0, 0.5), record(1.4, 1, 0.5), record(2.0, 0, 0.9)]
    assert betas(one_beta(records)) == [("mgce", 0, 1.4), ("mgce", 1, 1.4)]
    assert betas(best_candidate(records)) == [("mgce", 0, 2.0), ("mgce", 1, 1.4)]


def test_means_of_the_same_counts_are_equal_in_any_order():
    # .1 + .2 + .3 and .3 + .2 + .1 differ in the last digit
    records = [record(b, s, v) for b, vs in ((2.0, (0.1, 0.2, 0.3)), (1.4, (0.3, 0.2, 0.1))) for s, v in enumerate(vs)]
    assert {r["beta"] for r in one_beta(records)} == {1.4}
