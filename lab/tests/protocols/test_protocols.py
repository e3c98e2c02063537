import math
from dataclasses import asdict, replace

import pytest

from mgce_lab.engine.consistency import check_no_network_twice, check_one_setting
from mgce_lab.engine.methods import METHODS, Method
from mgce_lab.engine.specification import document, networks, remaining
from mgce_lab.losses import LOSSES
from mgce_lab.protocols.protocols import PROTOCOLS, Request, p1, p2, plan, rates, reduced, selection, training
from mgce_lab.protocols.study import BENCHMARK


def only(runs, **fields):
    return [run for run in runs if all(getattr(run, name) == value for name, value in fields.items())]


def test_p1_is_as_published():
    (run,) = only(p1(Request(seeds=1)), method="ce", noise_rate=0.4, noise_type="symmetric", l1=0.0)
    assert (run.architecture, run.epochs, run.lr, run.weight_decay, run.batch_size) == ("convnet2", 50, 0.01, 1e-3, 128)
    assert (run.momentum, run.max_norm, run.schedule, run.validation_size) == (0.9, 5.0, "cosine", 0.0)
    assert (run.padding, run.crop, run.flip, run.rotation, run.rows, run.l1) == (0, 28, False, 0.0, None, 0.0)
    assert run.lr_at(0) == 0.01 and run.lr_at(25) == pytest.approx(0.005)
    cifar = p1(Request(datasets=("cifar10", "cifar100"), seeds=1, methods=("ce",)))
    ten, hundred = (
        only(cifar, dataset=name, noise_rate=0.4, noise_type="asymmetric")[0] for name in ("cifar10", "cifar100")
    )
    assert (ten.architecture, ten.epochs, ten.lr, ten.weight_decay) == ("convnet6", 120, 0.01, 1e-4)
    assert (ten.padding, ten.crop, ten.flip, ten.rotation) == (4, 32, True, 0.0)
    assert (hundred.architecture, hundred.epochs, hundred.lr, hundred.weight_decay) == ("resnet34", 200, 0.1, 1e-5)
    assert (hundred.flip, hundred.rotation, hundred.initialization) == (True, 20.0, "uniform")


def test_single_losses_have_their_own_penalties():
    runs = p1(Request(datasets=("mnist", "cifar10", "cifar100"), seeds=1, methods=("ce", "anl-ce", "jal-ce")))
    found = {(run.dataset, run.method): (run.l1, run.weight_decay) for run in runs}
    assert found["mnist", "anl-ce"] == (1e-6, 0.0) and found["mnist", "jal-ce"] == (0.0, 0.0)
    assert found["cifar10", "anl-ce"] == found["cifar10", "jal-ce"] == (5e-5, 0.0)
    assert found["cifar100", "anl-ce"] == (5e-7, 0.0) and found["cifar100", "jal-ce"] == (5e-7, 1e-5)
    assert found["cifar100", "ce"] == (0.0, 1e-5)


def test_p1_ends_with_penalties_for_mgce_and_cross_entropy_in_small_networks():
    runs = p1(Request(datasets=("mnist", "cifar10"), seeds=1, noise_rates=(0.4,)))
    penalised = [run for run in runs if run.l1 > 0 and run.method not in ("anl-ce", "jal-ce")]
    assert runs[-len(penalised) :] == penalised
    assert {(run.dataset, run.method, run.beta, run.l1) for run in penalised} == {
        ("mnist", method, beta, size) for method, beta in (("mgce", 1.05), ("ce", math.inf)) for size in (3e-4, 1e-3)
    }


def test_the_cells_that_tell_most_come_first():
    runs = p1(Request())
    first = ["ce", "gce", "sce", "nce+rce", "nce+agce", "anl-ce", "ce_eps+mae", "mgce", "mgce"]
    assert [run.method for run in runs[:18]] == 2 * first
    assert [run.noise_rate for run in runs[:18]] == 9 * [0.4] + 9 * [0.8]
    assert {run.noise_type for run in runs[18:27]} == {"asymmetric"}
    assert runs[0].seed == 0 and runs[-1].seed == 2
    assert {(run.method, run.beta) for run in runs} == {(method.name, method.beta) for method in METHODS}


def test_p2_has_the_human_labels():
    runs = p2(Request(seeds=1))
    assert {(run.dataset, run.labels) for run in runs} >= {("cifar10n", "worst"), ("cifar100n", "noisy")}
    run = runs[0]
    assert (run.architecture, run.epochs, run.batch_size, run.weight_decay) == ("resnet34", 100, 128, 5e-4)
    assert [run.lr_at(epoch) for epoch in (0, 59, 60, 99)] == pytest.approx([0.1, 0.1, 0.01, 0.01])
    assert {run.weight_decay for run in only(runs, method="anl-ce")} == {0.0}


def test_reduced_has_few_images_and_an_annealed_beta():
    runs = reduced(Request(seeds=1))
    assert {run.dataset: run.rows for run in runs} == {"mnist": 2_000, "cifar10": 5_000, "cifar10n": 5_000}
    first = [("mnist", "symmetric", 0.4), ("mnist", "symmetric", 0.8)]
    others = [("cifar10", "symmetric", 0.4), ("cifar10n", "human", 0.0), ("mnist", "asymmetric", 0.4)]
    last = [("mnist", "symmetric", rate) for rate in (0.2, 0.6, 0.0)]
    cells = [(run.dataset, run.noise_type, run.noise_rate) for run in only(runs, method="ce")]
    assert cells == [*first, *others, *last]  # what tells most first
    assert {run.noise_rate for run in reduced(Request(smoke=True))} == {0.4, 0.8}
    assert [(run.method, run.beta) for run in runs if run.beta_start is not None] == 8 * [("mgce", 1.05)]
    begun = {(run.method, run.cap_from) for run in runs if run.cap_from is not None}
    assert begun == {(method, epoch) for method in ("mgce+trunc", "ce+trunc") for epoch in (1, 2)}
    trimmed = {(run.method, run.trim, run.noise_rate) for run in runs if run.trim is not None}
    assert trimmed == {(method, trim, 0.4) for method in ("mgce+trim", "ce+trim") for trim in (0.2, 0.3, 0.5)}
    assert len(runs) == 8 * (len(METHODS) + 1 + 4) + 3 * 6


def test_training_changes_one_setting_at_a_time():
    usual = only(
        reduced(Request(seeds=1)), dataset="mnist", noise_rate=0.4, noise_type="symmetric", cap_from=None, trim=None
    )
    usual = {(run.method, run.beta): run for run in usual if run.beta_start is None}
    runs = only(training(Request()), noise_rate=0.4, noise_type="symmetric")
    changed = []
    for run in runs:
        base = replace(usual[run.method, run.beta], protocol="training")
        changed.append({name: value for name, value in asdict(run).items() if value != getattr(base, name)})
    assert {len(settings) for settings in changed} == {0, 1}
    assert {name for settings in changed for name in settings} == {"lr", "weight_decay", "l1"}
    of_loss = [
        sorted(map(str, (own for own, run in zip(changed, runs, strict=True) if run.method == name)))
        for name in ("ce", "mgce")
    ]
    assert of_loss[0] == of_loss[1] and len(set(of_loss[0])) == len(of_loss[0])  # all losses alike, no setting twice
    others = [run for run in training(Request(methods=("ce",))) if run not in runs]
    cells = {("symmetric", 0.8), ("asymmetric", 0.4)}
    assert {(run.noise_type, run.noise_rate, run.l1) for run in others} == {
        (*cell, size) for cell in cells for size in (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
    }
    assert {(run.lr, run.weight_decay) for run in others} == {(0.01, 1e-3)}
    human = training(Request(datasets=("cifar10n",), methods=("ce",)))
    assert {(run.dataset, run.labels, run.rows) for run in human} == {("cifar10n", "worst", 5_000)}


def test_selection_holds_images_out_and_has_every_value_for_every_loss():
    runs = selection(Request(seeds=1, datasets=("mnist",)))
    assert {(run.validation_size, run.rows, run.lr, run.epochs) for run in runs} == {(0.2, 2_000, 0.01, 30)}
    cells = [("symmetric", 0.4), ("symmetric", 0.8), ("asymmetric", 0.4)]
    assert list(dict.fromkeys((run.noise_type, run.noise_rate) for run in runs)) == cells
    cell = only(runs, noise_rate=0.4, noise_type="symmetric")
    sizes = {name: {run.l1 for run in only(cell, method=name)} for name in ("mgce", "ce", "gce", "sce", "nce+agce")}
    assert set(map(tuple, map(sorted, sizes.values()))) == {(0.0, 3e-4, 1e-3, 3e-3, 1e-2)}
    shares = {name: [run.trim for run in only(cell, method=name)] for name in ("mgce+trim", "ce+trim")}
    assert set(map(tuple, shares.values())) == {(0.2, 0.3, 0.4, 0.5, 0.6)}
    assert {run.beta for run in cell if run.method.startswith("mgce") and (run.trim or run.l1)} == {1.05}
    assert {run.beta for run in only(cell, method="mgce", l1=0.0)} == {1.0, 1.05, 1.4, 2.0, 5.0}
    rest = {run.method: run.l1 for run in cell if run.method not in sizes.keys() | shares.keys()}
    assert rest == {"nce+rce": 0.0, "anl-ce": 1e-6, "ce_eps+mae": 0.0, "mae": 0.0}
    alone = selection(Request(seeds=1, datasets=("mnist",), methods=("ce+trim",)))
    assert {(run.method, run.trim) for run in alone} == {
        ("ce", None),
        *(("ce+trim", share) for share in shares["ce+trim"]),
    }
    assert {run.dataset for run in selection(Request())} == {"mnist", "fashion_mnist"}
    assert {run.labels for run in selection(Request(datasets=("cifar10n",)))} == {"worst"}


def test_rates_are_those_of_the_grid():
    runs = rates(Request())
    assert {(run.dataset, run.lr) for run in runs} == {
        (d, lr) for d in ("letter", "adult") for lr in (0.03, 0.01, 0.003, 0.001)
    }
    assert {run.seeds for run in runs} == {(0, 1, 2, 3, 4)} and {run.noise_rate for run in runs} == {0.4}
    assert {run.members[0][0] for run in runs} == set(LOSSES)
    trimmed = {(*run.members, run.lr, run.trim) for run in runs if run.trim is not None}
    assert trimmed == {(("mgce+trim", 1.05), 0.03, trim) for trim in (0.1, 0.2, 0.3, 0.4, 0.5)}
    penalised = {(*run.members, run.lr, run.penalty) for run in runs if run.penalty is not None}
    losses = (("mgce", 1.05), ("ce", math.inf))
    assert penalised == {(loss, 0.03, size) for loss in losses for size in (0.0, 1e-4, 3e-4, 1e-3, 3e-3)}
    assert len(runs) == 2 * (4 * len(METHODS) + 5 + 10)


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("smoke", [False, True])
def test_the_runs_of_a_protocol_are_of_one_setting(name, smoke):
    runs = PROTOCOLS[name](Request(smoke=smoke))
    check_one_setting([document(run) for run in runs], BENCHMARK.by_dataset)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_plan_names_each_network_once_and_those_done_are_left_out(name):
    """Runs of images have their labels as an axis, also where these are the published ones."""
    runs = plan(name, Request(seeds=1))
    check_no_network_twice([document(run) for run in runs])
    done = networks(document(runs[0]))
    assert remaining(runs[0], done) == [] and remaining(runs[1], done) == [runs[1]]


def test_rates_of_noise_are_chosen_among_those_of_the_protocol():
    every = plan("p1", Request(seeds=1))
    some = plan("p1", Request(seeds=1, noise_rates=(0.4, 0.8)))
    assert some == [run for run in every if run.noise_rate in (0.4, 0.8)] and 0 < len(some) < len(every)
    with pytest.raises(
        ValueError, match=r"Expected `noise_rate` to be rates of this protocol \(0, 0.2, 0.4, 0.6, 0.8\), but got '0.3'"
    ):
        plan("p1", Request(noise_rates=(0.3,)))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_loss_asked_for_has_runs_or_is_refused(name):
    """Never an empty plan, after which a command would say that it has written its results."""
    for loss in LOSSES:
        try:
            runs = plan(name, Request(methods=(loss,), seeds=1, smoke=True))
        except ValueError as error:
            assert "Expected `methods` to be losses of this protocol (" in str(error)
            assert str(error).endswith(f"but got '{loss}'.") and name in ("training", "selection")
            with pytest.raises(ValueError, match="Expected `methods`"):
                plan(name, Request(methods=("ce", loss), smoke=True))
        else:
            assert runs


def test_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="Expected `methods` to be one of 'ce', 'mae'"):
        Request(methods=("svm",))
    with pytest.raises(ValueError, match="Expected `methods` to be one of"):
        Method("svm")
    with pytest.raises(ValueError, match="Expected `dataset` to be one of mnist, fashion_mnist, cifar10, cifar100"):
        p1(Request(datasets=("svhn",)))
    with pytest.raises(
        ValueError, match="Expected `dataset` to be one of digits, mnist, fashion_mnist, cifar10, cifar"
    ):
        p1(Request(datasets=("webvision",), smoke=True))  # nor in a miniature, which is to show that the rest will work
    for name, values in (("methods", ("mgce", "mgce")), ("datasets", ("mnist", "mnist")), ("noise_rates", (0.4, 0.4))):
        with pytest.raises(ValueError, match=f"Expected `{name}` to be one or more values, none of them twice"):
            Request(**{name: values})
