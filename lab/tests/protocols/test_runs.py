"""The runs of the protocols: what labels they train on, what they record, what they keep."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from mgce.noise import symmetric
from mgce_lab.data.image_sets import ImageDataset, Images
from mgce_lab.engine.consistency import check_one_setting
from mgce_lab.engine.methods import Method, stages
from mgce_lab.engine.place import Place
from mgce_lab.engine.specification import document, networks
from mgce_lab.engine.store import Run, Runs, run_name
from mgce_lab.engine.sweep import Workers, carry_out
from mgce_lab.losses import LOSSES
from mgce_lab.protocols.images import CONFUSED, SUPERCLASSES, LossRun, noisy_images
from mgce_lab.protocols.settings import DIGITS
from mgce_lab.protocols.study import BENCHMARK
from mgce_lab.protocols.tables import RateRun
from mgce_lab.training.member_losses import MemberLoss

KINDS = BENCHMARK.by_dataset
RUN = LossRun(**{**DIGITS, "epochs": 1}, protocol="p1", dataset="digits", method="ce", beta=math.inf, noise_rate=0.4)
TOLD = symmetric(10, 0.4), torch.full((10,), 36)


def images(n=2000, k=10, noisy=None):
    generator = np.random.default_rng(0)
    target = np.repeat(np.arange(k), n // k)
    parts = [Images(generator.integers(0, 255, (n, 1, 2, 2), np.uint8), target, noisy or {}) for _ in range(2)]
    return ImageDataset("mnist", tuple(map(str, range(k))), *parts)


def test_each_class_loses_the_same_count_to_each_other():
    dataset, transition, _ = noisy_images(replace(RUN, noise_rate=0.45), images())
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (images().train.target, dataset.train.target), 1)
    assert (counts == 100 * np.eye(10, dtype=int) + 10).all()
    torch.testing.assert_close(transition, symmetric(10, 0.45))
    assert (dataset.test.target == images().test.target).all()
    other, *_ = noisy_images(replace(RUN, noise_rate=0.45, seed=1), images())
    assert (other.train.target != dataset.train.target).any()


def test_asymmetric_noise_confuses_the_classes_that_look_alike():
    dataset, *_ = noisy_images(replace(RUN, dataset="mnist", noise_type="asymmetric"), images())
    clean = images().train.target
    wrong = dataset.train.target != clean
    assert {(y, int(z)) for y, z in zip(clean[wrong], dataset.train.target[wrong], strict=True)} == set(
        CONFUSED["mnist"].items()
    )
    assert wrong.sum() == 5 * 80
    with pytest.raises(ValueError, match="Expected `noise_type` to be 'symmetric' on digits"):
        noisy_images(replace(RUN, noise_type="asymmetric"), images())


def test_superclasses_are_five_classes_each():
    assert sorted(label for group in SUPERCLASSES for label in group) == list(range(100))
    assert {len(group) for group in SUPERCLASSES} == {5}
    run = replace(RUN, dataset="cifar100", noise_type="asymmetric", noise_rate=1.0)
    dataset, *_ = noisy_images(run, images(200, 100))
    after = {int(y): int(z) for y, z in zip(images(200, 100).train.target, dataset.train.target, strict=True)}
    assert after[4] == 30 and after[95] == 4  # beaver, dolphin; whale, beaver


def test_human_labels_are_taken_as_they_are():
    labels = np.roll(images().train.target, 100)
    run = replace(RUN, noise_type="human", labels="worst", noise_rate=0.0)
    dataset, transition, _ = noisy_images(run, images(noisy={"worst": labels}))
    assert (dataset.train.target == labels).all()
    torch.testing.assert_close(transition[1, :2], torch.tensor([0.5, 0.5], dtype=torch.double))
    with pytest.raises(ValueError, match="Expected `labels` to be the name of human labels"):
        replace(RUN, labels="worst")


def test_a_part_of_the_images_has_the_classes_in_proportion():
    dataset, *_ = noisy_images(replace(RUN, rows=100, test_rows=50, noise_rate=0.0), images())
    assert (np.bincount(dataset.train.target) == 10).all() and (np.bincount(dataset.test.target) == 5).all()
    larger, *_ = noisy_images(replace(RUN, rows=200, seed=5, noise_rate=0.0), images())
    of_larger = {image.tobytes() for image in larger.train.images}
    assert sum(image.tobytes() in of_larger for image in dataset.train.images) == 100


def test_stages():
    anneal = replace(RUN, method="mgce", beta=1.05, beta_start=11.0, epochs=8)._stages(*TOLD)
    betas = [anneal[epoch].beta for epoch in range(5)]
    assert betas[0] == 11.0 and betas[4] == 1.05 and sorted(anneal) == [0, 1, 2, 3, 4]
    ratios = np.diff(np.log(np.array(betas) - 1))
    np.testing.assert_allclose(ratios, ratios[0])
    capped = replace(RUN, method="mgce+cap", beta=1.05)._stages(*TOLD)
    assert {epoch: loss.family for epoch, loss in capped.items()} == {0: "mgce", 3: "mgce+cap"}
    truncated = replace(RUN, method="ce+trunc", beta=math.inf)._stages(*TOLD)
    assert {epoch: loss.family for epoch, loss in truncated.items()} == {0: "ce", 3: "ce+trunc"}
    sooner = replace(RUN, method="ce+trunc", beta=math.inf, cap_from=1)
    assert list(sooner._stages(*TOLD)) == [0, 1]
    with pytest.raises(ValueError, match="Expected `method` to be one of 'mgce.cap'"):
        replace(RUN, method="mgce", beta=1.4, cap_from=1)
    losses = [MemberLoss("sce"), MemberLoss("mgce+trunc", 1.05)]
    assert stages(losses) == {0: [losses[0], MemberLoss("mgce", 1.05)], 3: losses}
    assert stages(losses[:1]) == {0: losses[:1]}


def test_the_epoch_of_a_threshold_is_an_axis():
    run = replace(RUN, method="ce+trunc", beta=math.inf)
    sooner = document(replace(run, cap_from=1))
    assert sooner["cap_from"] == 1 and "cap_from" in sooner["axes"]
    assert not networks(sooner) & networks(document(run))


def test_a_share_to_trim_of_all_labels_alike_is_an_axis():
    run = replace(RUN, method="ce+trim", beta=math.inf)
    fixed = replace(run, trim=0.25)
    assert document(fixed)["trim"] == 0.25 and not networks(document(fixed)) & networks(document(run))
    assert fixed._stages(*TOLD)[0].options == {"trim": 0.25, "num_classes": 10}
    for keywords, message in (
        ({"method": "ce"}, "Expected `method` to be one of 'mgce.trim'"),
        ({"trim": 2}, "`trim`"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(fixed, **keywords)


def test_hyperparameters_are_the_published_ones():
    T, even, mnist = symmetric(10, 0.8), torch.ones(10), ("mnist", None, None)
    assert Method("nce+agce").loss(mnist, T, even).options == {
        "weights": (0.0, 1.0),
        "a": 4.0,
        "q": 0.2,
    }
    assert Method("ce+logitclip").loss(("cifar10", "symmetric", 0.8), T, even).options == {"inverse_norm": 1.5}
    assert Method("jal-ce").loss(mnist, T, even).options == {
        "weights": (1.0, 1.0),
        "c": 30.0,
    }  # CIFAR-10's
    assert Method("ce+forward").loss(mnist, T, even).options == {"transition": T.tolist()}
    assert Method("ce+trim").loss(mnist, T, even).options == {"trim": [0.8] * 10, "num_classes": 10}
    assert Method("ce+trim", trim=0.3).loss(mnist, T, even).options == {"trim": 0.3, "num_classes": 10}
    nothing_right = (1 - torch.eye(10)) / 9
    with pytest.raises(
        ValueError, match="Expected `noise_rate` to be such that ce.trim, which leaves out wrong labels, has"
    ):
        Method("ce+trim").loss(mnist, nothing_right, even)
    for name, trim in (("ce+trim", 1.0), ("ce", 0.3)):
        with pytest.raises(ValueError, match=r"Expected `(trim|methods)`"):
            Method(name, trim=trim)


def test_a_run_names_the_hyperparameters_of_its_loss():
    run = replace(RUN, dataset="mnist", method="ce_eps+mae")
    confused = replace(run, noise_type="asymmetric")
    assert document(run)["hyperparameters"] == {"ce_eps+mae": {"weights": [0.01, 10.0], "m": 1e5}}
    assert document(confused)["hyperparameters"] == {"ce_eps+mae": {"weights": [0.02, 10.0], "m": 1e3}}
    rates = RateRun("wine", 0.2, (0,), (("nce+agce", math.inf), ("ce", math.inf)))
    cifar10 = {"weights": [1.0, 4.0], "a": 6.0, "q": 1.5}
    assert document(rates)["hyperparameters"] == {"nce+agce": cifar10, "ce": {}}
    check_one_setting(
        [document(one) for one in (run, confused, replace(run, method="ce"), replace(run, seed=1))], KINDS
    )


@pytest.mark.parametrize(
    ("run", "data"),
    [
        (replace(RUN, dataset="mnist", method="nce+agce"), "mnist"),
        (RateRun("wine", 0.2, (0,), (("nce+agce", math.inf),)), "cifar10"),
    ],
)
def test_finished_runs_are_not_taken_for_those_by_other_hyperparameters(tmp_path, monkeypatch, run, data):
    store, old = Runs(tmp_path), document(run)
    store.write(Run(old, [{"accuracy": 0.5}], {}))
    monkeypatch.setitem(LOSSES["nce+agce"].presets.by_data, data, {"a": 5.0})  # another version of this package
    new = replace(run)
    assert run_name(document(new)) != run_name(old)
    with pytest.raises(
        ValueError, match=f"Expected `hyperparameters` to be .* in all runs by nce.agce on {run.dataset}"
    ):
        carry_out(BENCHMARK, [new], store, Place(), Workers(), print)
    check_one_setting(
        [{**old, "hyperparameters": "cifar10"}, document(new)], KINDS
    )  # an earlier version did not say them


HUMAN = {"noise_type": "human", "labels": "a"}


@pytest.mark.parametrize("kind", [{"noise_rate": 0.45}, {"noise_type": "asymmetric"}, HUMAN])
def test_losses_that_trim_are_told_the_share_of_wrong_labels_by_label(kind):
    data, generator = images(), np.random.default_rng(1)
    clean = generator.choice(10, 2000, p=np.arange(1, 11) / 55)
    wrong = np.where(generator.random(2000) < 0.3, (clean + 3) % 10, clean)
    data = replace(data, train=Images(data.train.images, clean, {"a": wrong}))
    run = replace(RUN, dataset="mnist", method="ce+trim", **{"noise_rate": 0.0 if "labels" in kind else 0.4, **kind})
    dataset, transition, frequencies = noisy_images(run, data)
    seen = dataset.train.target
    share = [(clean[seen == label] != label).mean() for label in range(10)]
    assert np.ptp(share) > 0.1
    told = run._stages(transition, frequencies)[0].options["trim"]
    np.testing.assert_allclose(told, share, atol=0.01)  # of 36 labels of the rarest class, parts of one
    part = noisy_images(replace(run, rows=500), data)
    assert part.frequencies.sum() == 500


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
@pytest.mark.parametrize("method, beta", [("anl-ce", math.inf), ("mgce+scale", 1.4)])
def test_a_run_on_images_records_the_last_epoch_and_keeps_its_logits(tmp_path, method, beta):
    pytest.importorskip("lightning")
    run = replace(RUN, method=method, beta=beta, l1=1e-6, epochs=2)
    (record,) = run.run(Place(logits=tmp_path / "logits"))
    kept = np.load(tmp_path / "logits" / f"{run_name(document(run))}.npz")
    assert kept["logits"].shape == (360, 10) and kept["logits"].dtype == np.float16
    assert record["accuracy"] == pytest.approx((kept["logits"].argmax(1) == kept["target"]).mean(), abs=2 / 360)
    assert record["accuracy"] == pytest.approx(record["test_accuracy_by_epoch"][-1], abs=1e-4)
    assert record["best_accuracy"] == pytest.approx(max(record["test_accuracy_by_epoch"]), abs=1e-4)
    assert sum(record["reliability_h"]["count"]) == 360


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_a_run_with_images_held_out_records_the_epoch_that_their_noisy_labels_choose(tmp_path):
    pytest.importorskip("lightning")
    apart = []
    for seed in range(3):
        run = replace(RUN, epochs=6, lr=0.3, validation_size=0.2, noise_rate=0.6, seed=seed)
        (record,) = run.run(Place(precision="32-true", logits=tmp_path / "logits"))
        noisy, test = record["validation_accuracy_by_epoch"], record["test_accuracy_by_epoch"]
        assert len(noisy) == len(test) == 6
        assert record["accuracy"] == pytest.approx(test[np.argmax(noisy)], abs=1e-4)
        assert max(noisy) < 0.6 < max(test)  # four in ten of the labels held out are right
        apart.append(abs(record["accuracy"] - test[-1]))
    assert max(apart) > 1e-3  # or the epoch would be the last one anyway, on every processor


def test_a_run_on_a_table_records_every_seed_and_keeps_its_logits(tmp_path):
    run = RateRun("wine", 0.2, (0, 1), (("nce+rce", math.inf), ("mgce+scale", 1.4)), lr=0.01, hidden=8, epochs=2)
    records = run.run(Place(logits=tmp_path))
    assert [(r["method"], r["beta"], r["seed"]) for r in records] == [
        ("nce+rce", "inf", 0),
        ("mgce+scale", 1.4, 0),
        ("nce+rce", "inf", 1),
        ("mgce+scale", 1.4, 1),
    ]
    kept = np.load(tmp_path / f"{run_name(document(run))}.npz")
    for number, record in enumerate(records):
        group, member = divmod(number, 2)
        right = kept["logits"][group, member].argmax(1) == kept["target"][group]
        assert record["accuracy"] == pytest.approx(right.mean(), abs=1e-6)
        assert len(record["test_accuracy_by_epoch"]) == 2 and record["lr"] == 0.01


def test_a_share_to_leave_out_is_an_axis():
    run = RateRun("wine", 0.2, (0,), (("mgce+trim", 1.05),), lr=0.1, hidden=8, epochs=3)
    most = replace(run, trim=0.9)
    assert document(most)["trim"] == 0.9 and not networks(document(most)) & networks(document(run))
    (record,), (other,) = run.run(Place()), most.run(Place())
    assert "trim" not in record and other["trim"] == 0.9
    assert other["test_accuracy_by_epoch"] != record["test_accuracy_by_epoch"]
    with pytest.raises(ValueError, match="Expected `members` to be one of 'mgce.trim', 'ce.trim', but got 'ce'"):
        RateRun("wine", 0.2, (0,), (("ce", math.inf),), trim=0.2)


def test_a_penalty_of_its_own_is_an_axis():
    run = RateRun("wine", 0.2, (0,), (("ce", math.inf),), lr=0.1, hidden=8, epochs=3)
    much, same = replace(run, penalty=0.1), replace(run, penalty=run.l1)
    assert document(much)["penalty"] == 0.1 and not networks(document(much)) & networks(document(run))
    (record,), (other,), (equal,) = (which.run(Place()) for which in (run, much, same))
    assert "penalty" not in record and other["penalty"] == 0.1
    assert equal["test_accuracy_by_epoch"] == record["test_accuracy_by_epoch"] != other["test_accuracy_by_epoch"]
    with pytest.raises(ValueError, match="`penalty`"):
        replace(run, penalty=-1.0)
