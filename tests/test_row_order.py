"""Sorting a file changes nothing: every public function and command on the same rows in other orders.

Statistics stay the same to rounding, and so do results for single rows, put back in their places. Random splits, folds
and batches are drawn from the rows sorted by their content, so with a seed what learns by chance is the same too. Names
that are public and stand in no list of this file fail the last test.
"""

import dataclasses
import importlib
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

import commands
import every_loss
import mgce
from mgce import (
    ConsensusClassifier,
    estimators,
    find_consensus,
    find_suspects,
    functional,
    labels,
    losses,
    metrics,
    noise,
    risk,
    sets,
)
from mgce._row_order import content_order
from mgce.desk.cli.commands import COMMANDS
from mgce.desk.files import Table
from mgce.estimators import stochastic
from mgce.integrations.untied import UntiedClassifier, untied_probs
from mgce.labels.confident import confident_labels
from mgce.risk import UncertaintySet
from mgce_lab.cli import commands as lab_commands
from mgce_lab.compare import compare

N, K, D = 150, 3, 4
RATE = {"noise_rate": 0.1}
T = noise.symmetric(K, 0.1).numpy()


class Rows:
    """Rows of a sample with ties of every kind: equal features, saturated and equal probabilities, equal labels."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.y = rng.integers(0, K, N)
        self.X = (rng.normal(size=(N, D)) + np.eye(K, D)[self.y] * 2).round(1)
        self.X[::7] = self.X[0]
        margins = self.X[:, :K] * 2
        self.h = functional.minimax_probs(torch.from_numpy(margins), beta=1.2).numpy()
        self.margins, self.weight = margins, rng.integers(1, 4, N).astype(float)
        self.group = rng.integers(0, 40, N)

    def sorted_by(self, order):
        """Return the same rows in another order."""
        rows = Rows()
        for name, values in vars(self).items():
            setattr(rows, name, values[order])
        return rows

    @property
    def f(self):
        """The margins as a tensor."""
        return torch.from_numpy(self.margins)

    @property
    def p(self):
        """The probabilities as a tensor."""
        return torch.from_numpy(self.h)

    @property
    def t(self):
        """The labels as a tensor."""
        return torch.from_numpy(self.y)


ROWS = Rows()
ORDERS = {
    "by label": np.argsort(ROWS.y, kind="stable"),
    "by suspicion": np.argsort(ROWS.h.argmax(1) == ROWS.y, kind="stable"),
    "backwards": np.arange(N)[::-1],
    "at random": np.random.default_rng(1).permutation(N),
}


def certified(**options):
    return lambda r: risk.certify(r.y, r.h, beta=1.4, **options)


def each(by, **options):
    return lambda r: risk.certify_each(r.y, r.h, r.group % 3 if by == "column" else by, **options)


def calibrated(**options):
    def case(r):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the right class has probability 0 on many of these rows
            found = sets.calibrate(r.y, r.h, alpha=0.2, **options)
        return found.thresholds, PerRow(found.predict(r.h))

    return case


def calibrated_logits(**options):
    def case(r):
        found = sets.calibrate(r.y, logits=3 * np.log(np.asarray(r.h) + 1e-9), alpha=0.2, **options)
        return found.thresholds, PerRow(found.predict(logits=3 * np.log(np.asarray(r.h) + 1e-9)))

    return case


class PerRow:
    """Results for single rows, shape (n, ...), which are put back in their places before they are compared."""

    def __init__(self, values):
        self.values = np.asarray(values)


def fitted(model, *, weighted=False, sparse=False):
    def case(r):
        from scipy.sparse import csr_matrix

        X = csr_matrix(r.X) if sparse else r.X
        clf = model().fit(X, r.y, r.weight) if weighted else model().fit(X, r.y)
        judged = [
            getattr(clf, name) for name in ("oob_decision_function_", "labels_", "oof_proba_") if hasattr(clf, name)
        ]
        kept = []  # of training rows, of which equal ones are interchangeable
        for values in judged:
            table = np.column_stack([r.X, r.y, r.weight, values])
            kept.append(table[content_order(table)])
        chosen = [getattr(clf, name) for name in ("scores_", "minimax_risk_") if hasattr(clf, name)]
        return clf.predict_proba(ROWS.X), PerRow(clf.predict_proba(X)), kept, [c for c in chosen if c is not None]

    return case


def suspects(model):
    def case(r):
        ranked = model().fit(r.X, r.y).suspect_labels(r.X, r.y)
        return r.X[ranked], r.y[ranked]  # the rows in their rank, equal rows being interchangeable

    return case


def found_suspects(r):
    found = find_suspects(r.h, r.y, given="probs")
    return r.h[found.order], r.y[found.order], PerRow(found.wrong.round(9))


def several_labels_a_row(r):
    shift = (np.abs(r.X[:, :1] * 1000).astype(int) + np.array([[0, 1, 2]])) % 4 == 0  # depends on the row alone
    return np.where(shift, (r.y[:, None] + 1) % len(np.unique(r.y)), r.y[:, None])


def found_consensus(r):
    found = find_consensus(several_labels_a_row(r), r.h)
    accuracies = [round(one.estimated_accuracy, 9) for one in found.annotators]
    return PerRow(found.probs.round(9)), PerRow(found.labels), r.h[found.rows_to_label(20)], accuracies


def fitted_consensus(r):
    clf = ConsensusClassifier(random_state=0).fit(r.X, several_labels_a_row(r))
    return PerRow(clf.consensus_.probs.round(5)), PerRow(clf.predict_proba(r.X).round(5))


def metric_class(name, *arguments):
    def case(r):
        metric = getattr(metrics, name)(*arguments)
        metric.update(r.p[:50], r.t[:50])
        metric.update(r.p[50:], r.t[50:])
        return metric.compute()

    return case


INDEXED = ("ELRLoss", "SelfAdaptiveLoss", "SoftBootstrapLoss")


def loss_module(build):
    return lambda r: build()(r.f, r.t)


def indexed_loss(build):
    """Two epochs of all rows: what each row's own place remembers may depend on no other place."""

    def each(r):
        criterion = build(len(r.t), K, reduction="none")
        return PerRow(torch.stack([criterion(r.f, r.t, torch.arange(len(r.t))) for _ in range(2)], 1))

    return each


def several_labels(r):
    return mgce.MultiLabelLoss(mgce.MGCELoss())(r.f, r.t[:, None] == torch.arange(r.f.shape[1]))


def loss_function(name):
    return lambda r: PerRow(every_loss.FUNCTIONS[name](r.f, r.t, reduction="none"))


def link_function(name):
    return lambda r: PerRow(getattr(functional, name)(r.f, beta=1.4))


def linear_loss(r):
    return functional.linear_mgce_loss(torch.from_numpy(r.X), torch.ones(K, D, dtype=torch.float64).tril(), r.t)


def linear_module(r):
    torch.manual_seed(0)
    return mgce.LinearMGCELoss(D, K, dtype=torch.float64)(torch.from_numpy(r.X), r.t)


def uncertainty(bound):
    def case(r):
        ends = (-9.0, 9.0)
        return UncertaintySet.from_samples(r.X, r.y, n_classes=K, feature_range=ends, bound=bound)

    return case


def linear_bound(r):
    return risk.linear_risk_bound(np.ones((K, D + 1)), uncertainty("hoeffding")(r), r.X, beta=1.4)


def minimax(r):
    found = risk.minimax_risk(r.X, UncertaintySet.heuristic(r.X, r.y, lambda_0=0.1), beta=2.0, tol=1e-10)
    return found.value, found.lower


def linear_fit(r):
    return risk.fit_linear(r.X, labels=r.y, n_classes=K, beta=1.4, lambda_=0.05, tol=1e-8).value


def bootstrapped(r):
    generator = torch.Generator().manual_seed(0)
    return metrics.bootstrap_interval(metrics.expected_calibration_error, r.p, r.t, generator, n_resamples=50)


def forest(**options):
    return estimators.MGCEForestClassifier(n_estimators=10, random_state=0, **options)


CASES = {
    "certify": certified(),
    "certify, symmetric noise": certified(**RATE),
    "certify, any noise": certified(noise_type="any", **RATE),
    "certify, known matrix": certified(transition=T),
    "certify, looked-up rows": lambda r: risk.certify(
        r.y, r.h, beta=1.4, checked=(np.flatnonzero(r.group % 3 == 0), ((r.y + r.group % 2) % K)[r.group % 3 == 0])
    ),
    "certify, groups": lambda r: risk.certify(r.y, r.h, beta=1.4, groups=r.group),
    "certify_each, label": each("label"),
    "certify_each, prediction": each("prediction", **RATE),
    "certify_each, column": each("column"),
    "certify_model": lambda r: risk.certify_model(LogisticRegression().fit(ROWS.X, ROWS.y), r.X, r.y),
    "repeated_labels_interval": lambda r: risk.repeated_labels_interval(r.y, r.h.argmax(1), n_classes=K),
    "estimate_transition": lambda r: risk.estimate_transition(r.y, r.h),
    "noise_share": lambda r: labels.noise_share(r.y, r.h),
    "agreement": lambda r: labels.agreement(several_labels_a_row(r)),
    "confident_labels": lambda r: PerRow(confident_labels(r.h, r.y)),
    "hoeffding_upper": lambda r: risk.hoeffding_upper(r.h[:, 0]),
    "hoeffding_bentkus_upper": lambda r: risk.hoeffding_bentkus_upper(r.h[:, 0]),
    "maurer_pontil_upper": lambda r: risk.maurer_pontil_upper(r.h[:, 0]),
    "UncertaintySet, betting": uncertainty("betting"),
    "UncertaintySet, bernstein": uncertainty("bernstein"),
    "UncertaintySet, hoeffding": uncertainty("hoeffding"),
    "UncertaintySet, heuristic": lambda r: UncertaintySet.heuristic(r.X, r.y),
    "linear_risk_bound": linear_bound,
    "minimax_risk": minimax,
    "fit_linear": linear_fit,
    "stochastic_gradient": lambda r: risk.stochastic_gradient(np.ones((K, D)), r.X, r.y, beta=2.0),
    "composite_losses": lambda r: PerRow(risk.composite_losses(r.h, beta=1.4)),
    "calibrate": calibrated(),
    "calibrate, for each class": calibrated(per_class=True),
    "calibrate, adaptive": calibrated(score="adaptive"),
    "calibrate, logits": calibrated_logits(),
    "calibrate, logits, adaptive and symmetric noise": calibrated_logits(score="adaptive", **RATE),
    "calibrate, any noise": calibrated(noise_type="any", **RATE),
    "calibrate, symmetric noise": calibrated(**RATE),
    "calibrate, known matrix": calibrated(transition=T, per_class=True, score="adaptive"),
    "ConformalSets": calibrated(),
    "conformal_scores": lambda r: PerRow(sets.conformal_scores(r.h, "adaptive")),
    "expected_calibration_error": lambda r: metrics.expected_calibration_error(r.p, r.t),
    "static_calibration_error": lambda r: metrics.static_calibration_error(r.p, r.t),
    "adaptive_calibration_error": lambda r: metrics.adaptive_calibration_error(r.p, r.t),
    "maximum_calibration_error": lambda r: metrics.maximum_calibration_error(r.p, r.t),
    "reliability_curve": lambda r: metrics.reliability_curve(r.p, r.t),
    "bootstrap_interval": bootstrapped,
    "ExpectedCalibrationError": metric_class("ExpectedCalibrationError"),
    "MaximumCalibrationError": metric_class("MaximumCalibrationError"),
    "StaticCalibrationError": metric_class("StaticCalibrationError", K),
    "AdaptiveCalibrationError": metric_class("AdaptiveCalibrationError"),
    "MGCEClassifier": fitted(estimators.MGCEClassifier),
    "MGCEClassifier, weighted": fitted(estimators.MGCEClassifier, weighted=True),
    "MGCEClassifier, lbfgs": fitted(lambda: estimators.MGCEClassifier(solver="lbfgs")),
    "MGCEClassifier, sgd": fitted(lambda: estimators.MGCEClassifier(solver="sgd", random_state=0), weighted=True),
    "MGCEClassifier, sgd, sparse": fitted(lambda: estimators.MGCEClassifier(solver="sgd", random_state=0), sparse=True),
    "LabelCorrectionClassifier": fitted(
        lambda: estimators.LabelCorrectionClassifier(n_estimators=10, n_components=20, random_state=0), weighted=True
    ),
    "MGCEForestClassifier": fitted(forest, weighted=True),
    "MGCEEmbeddingClassifier": fitted(lambda: estimators.MGCEEmbeddingClassifier(random_state=0), weighted=True),
    "suspect_labels": suspects(estimators.MGCEClassifier),
    "suspect_labels, with ties": suspects(lambda: forest(min_samples_leaf=20, splitter="best")),
    "find_suspects": found_suspects,
    "find_consensus": found_consensus,
    "ConsensusClassifier": fitted_consensus,
    "untied_probs": lambda r: PerRow(untied_probs(r.margins)),
    "UntiedClassifier": fitted(lambda: UntiedClassifier(estimators.MGCEClassifier())),
    "LinearMGCELoss": linear_module,
    "linear_mgce_loss": linear_loss,
    "alpha_loss": lambda r: PerRow(functional.alpha_loss(r.p, r.t, beta=1.4, reduction="none")),
    "clip_logits": lambda r: PerRow(every_loss.FUNCTIONS["clip_logits"](r.f, inverse_norm=1.0)),
    "forward_corrected_logits": lambda r: PerRow(functional.forward_corrected_logits(r.f, torch.from_numpy(T))),
    "minimax_to_worst_case": lambda r: PerRow(functional.minimax_to_worst_case(r.p, beta=1.4)),
    "worst_case_to_minimax": lambda r: PerRow(functional.worst_case_to_minimax(r.p, beta=1.4)),
    "ForwardCorrection": loss_module(lambda: mgce.ForwardCorrection(nn.CrossEntropyLoss(), torch.from_numpy(T))),
    "LearnedForwardCorrection": loss_module(lambda: mgce.LearnedForwardCorrection(K, nn.CrossEntropyLoss())),
    "LogitClip": loss_module(lambda: every_loss.MODULES["LogitClip"](nn.CrossEntropyLoss())),
    "LogitScale": loss_module(lambda: losses.LogitScale(nn.CrossEntropyLoss())),
    "SumLoss": loss_module(lambda: losses.SumLoss([nn.CrossEntropyLoss(), losses.RCELoss()], [0.1, 1.0])),
    "robust_loss": loss_module(lambda: mgce.robust_loss("nce+agce", "cifar10")),
    "MultiLabelLoss": several_labels,
    "MinimaxLink": lambda r: PerRow(losses.MinimaxLink()(r.f)),
    "TemperedSoftmax": lambda r: PerRow(every_loss.MODULES["TemperedSoftmax"]()(r.f)),
    "TemperatureScaling": lambda r: PerRow(losses.TemperatureScaling().fit(r.f, r.t)(r.f).detach()),
    **{name: link_function(name) for name in ("minimax_probs", "worst_case_probs", "normalizer", "normalized_logits")},
    **{
        name: loss_function(name)
        for name in every_loss.FUNCTIONS
        if name.endswith("_loss") and not name.startswith(("alpha", "linear"))
    },
    **{name: indexed_loss(every_loss.MODULES[name]) for name in INDEXED},
    **{
        name: loss_module(made)
        for name, made in every_loss.MODULES.items()
        if name.endswith("Loss")
        and name not in ("LinearMGCELoss", "MultiLabelLoss", "SumLoss", "TrimmedLoss", *INDEXED)
    },
}
# The order is their meaning.
ORDERED = {
    "betting_upper": "draws that a gambler sees one by one; certificates shuffle theirs before",
    "betting_intervals": "the same",
    "betting_upper_sequence": "a bound after every look",
    "drift_upper_sequence": "a bound after every look",
    "looked_up_upper_sequence": "a bound after every look",
    "rows_to_check": "a draw, of places in the order given",
    "share_looks": "the same",
    "TrimmedLoss": "a window of the last batches",
    "corrupt": "row i gets draw i of the caller's generator: simulated noise, whose draws published results rest on",
    "corrupt_by_features": "the same",
    "fit_chunks": "chunks are read in their order, each in an order of its own",
    "partial_fit": "a stream of batches, descended on as they come",
    "reproduce": "published data sets, whose order is the published one, and results that are compared byte for byte",
    "benchmark": "the same",
}
# They take no rows: numbers, names, counts, classes of results, and rooms.
NO_ROWS = {
    *("NoiseShare", "DoubtfulLabels", "Consensus", "Agreement", "Looks"),
    *("argmax_factor", "asymmetric_noise_bounds", "symmetric_noise_bounds", "clean_risk_bound", "loss_sum_bounds"),
    *("clopper_pearson_lower", "clopper_pearson_upper", "hoeffding_radius", "maurer_pontil_radius", "mae_bounds"),
    *(
        "optimal_margins",
        "stratified_upper",
        "symmetric",
        "asymmetric",
        "pair_flip",
        "inverse_noise_matrix",
    ),
    *("Bounds", "EmptyUncertaintySetError", "LinearFit", "MinimaxRisk", "NoiseRateInterval", "RiskCertificate"),
    *("TransitionEstimate", "Interval", "ReliabilityCurve", "CorruptedLabels", "save", "load"),
    *("estimators", "functional", "labels", "loop", "losses", "metrics", "noise", "risk", "sets"),
    *("env", "report"),  # versions, and records of finished runs
    "preset",  # names
    "prove_kernel",  # a device
    "IndexedDataset",  # it gives each row its place
    "choose_recipe",  # trains by a function of the caller
    "ModelKeeper",  # of a loop, whose steps have an order
    "demo",  # a table that the command writes itself
}
# They are tested where their tests are: a group of processes, and what `mgce fit` does.
ELSEWHERE = {
    "fit": "tests/tables",
    "predict": "row by row: tests/tables",
    "review": "tests/desk/review/test_sheet.py",
    "train": "lab/tests/images/test_image_fit.py",
    "embed": "row by row: tests/desk/encoders/test_embedding.py",
    "clean": "tests/desk/cli/test_clean.py",
}
COMMANDS_HERE = {"certify", "compare"}


def plain(result, order=None):
    """Return a result as a flat list of arrays, rows put back in their places."""
    if isinstance(result, PerRow):
        values = np.empty_like(result.values)
        values[np.arange(N) if order is None else order] = result.values
        return [values]
    if dataclasses.is_dataclass(result):
        result = [getattr(result, field.name) for field in dataclasses.fields(result)]
    if isinstance(result, dict):
        result = [part for item in result.items() for part in item]
    if isinstance(result, (list, tuple)):
        return [array for part in result for array in plain(part, order)]
    return [np.asarray(result.detach() if isinstance(result, torch.Tensor) else result)]


def assert_same(one, other):
    assert len(one) == len(other)
    for left, right in zip(one, other, strict=True):
        if left.dtype.kind in "fiub":
            np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)  # sums in another order
        else:
            assert left.tolist() == right.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_order_of_the_rows_does_not_matter(name, monkeypatch):
    few = stochastic.DESCENT._replace(batch_rows=16)
    monkeypatch.setattr(stochastic, "DESCENT", few)  # several steps in an epoch of few rows
    as_drawn = plain(CASES[name](ROWS))
    orders = ["by label"] if "Classifier" in name else ORDERS  # fits take the time
    for order in map(ORDERS.get, orders):
        assert_same(plain(CASES[name](ROWS.sorted_by(order)), order), as_drawn)


@pytest.mark.parametrize("options", [(), ("--by", "group"), ("--noise-rate", "0.1"), ("--groups", "group")], ids=str)
def test_the_certify_command(options, tmp_path):
    printed = []
    for order in (np.arange(N), *ORDERS.values()):
        rows = ROWS.sorted_by(order)
        frame = pd.DataFrame({"truth": rows.y, "group": rows.group % 30, "prediction": rows.h.argmax(1)})
        for label in range(K):
            frame[f"p_{label}"] = rows.h[:, label].round(9)
        frame.to_csv(tmp_path / "p.csv", index=False)
        done = commands.mgce("certify", "p.csv", "--target", "truth", *options, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert len(set(printed)) == 1


def test_the_compare_command_draws_the_same_rows():
    def drawn(rows):
        features = pd.DataFrame(rows.X, columns=list("wxyz")).assign(word=np.where(rows.X[:, 0] > 0, "a", None))
        table = Table("rows", features, rows.y, ("a", "b", "c"), "")
        split = compare._split(compare.in_order(table)[0], compare.Comparison(noise_rate=0.2), 0)
        return [np.asarray(values) for part in (split.train, split.validation, split.test) for values in part]

    for order in ORDERS.values():
        assert_same(drawn(ROWS.sorted_by(order)), drawn(ROWS))


def test_every_public_name_is_in_a_list():
    public = {*COMMANDS, *lab_commands.COMMANDS}
    for room in ("", ".risk", ".sets", ".metrics", ".noise", ".labels", ".estimators", ".functional", ".losses"):
        public |= set(importlib.import_module(f"mgce{room}").__all__)
    public |= {*every_loss.FUNCTIONS, *every_loss.MODULES}
    fits = {name for kind in map(estimators.__dict__.get, estimators.__all__) for name in dir(kind) if "fit" in name}
    public |= {name for name in fits if not name.startswith(("_", "set_", "from_"))} - {"fit"}
    tested = {name.partition(",")[0] for name in CASES} | COMMANDS_HERE
    listed = tested | set(ORDERED) | NO_ROWS | set(ELSEWHERE)
    assert sorted(public - listed) == [], "give each a case in CASES, or a reason in ORDERED, NO_ROWS or ELSEWHERE"
    helpers = {"suspect_labels", "confident_labels", "untied_probs", "UntiedClassifier"}
    assert sorted(listed - public - helpers) == []
    assert not tested & set(ORDERED)
