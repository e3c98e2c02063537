import json
import math
import sys
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
import torch
import typer
from torch.nn.modules.module import register_module_forward_hook
from typer.testing import CliRunner

pytest.importorskip("lightning")
pytest.importorskip("tensorboard")

from paper.image_runs import finished, settings_of, tiny

from mgce._files import alone_in
from mgce_lab.cli.reproduce import reproduce
from mgce_lab.data import image_folders, load_images
from mgce_lab.data.image_sets import ImageDataset, Images
from mgce_lab.data.sources import DataSource
from mgce_lab.engine import images as image_networks
from mgce_lab.engine.consistency import check_one_setting
from mgce_lab.engine.methods import row_name
from mgce_lab.engine.place import Place
from mgce_lab.engine.scratch import remove
from mgce_lab.engine.specification import document
from mgce_lab.engine.store import Runs, run_name
from mgce_lab.images import lightning
from mgce_lab.images.image_classifier import load_classifier
from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.paper import figure3, figure4, figure5, images, items, table1, table2
from mgce_lab.paper.image_settings import PAPER
from mgce_lab.paper.images import ImageRun
from mgce_lab.paper.plan import Options
from mgce_lab.training.member_losses import MemberLoss
from web_pages import check_structure

# PyTorch warns of what Lightning calls.
LEAF = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
CPU = lightning.Machine("cpu", channels_last=True)


def binned_error(confidence, hit):
    """The expected calibration error over 15 bins, one row at a time."""
    bins = [[] for _ in range(15)]
    for c, h in zip(confidence, hit, strict=True):
        bins[min(int(c * 15), 14)].append((c, h))
    gaps = [abs(np.mean([c for c, _ in rows]) - np.mean([h for _, h in rows])) * len(rows) for rows in bins if rows]
    return sum(gaps) / len(confidence)


@pytest.mark.nightly
@LEAF
def test_numbers_are_those_of_the_network_that_was_kept(tmp_path):
    run = tiny("ce", math.inf)
    (record,) = run.run(Place(precision="32-true"))
    loss = MemberLoss("gce", math.inf)  # the same bits: training magnifies the last digits
    dataset = load_images("digits")
    fit = lightning.train_images(settings_of(run), dataset, tmp_path, loss=loss, noise_rate=0.2, machine=CPU)
    assert record["best_epoch"] == fit.best_epoch
    assert record["validation_accuracy"] == max(fit.curves["validation_accuracy"])
    assert record["validation_accuracy_by_epoch"] == pytest.approx(fit.curves["validation_accuracy"], abs=1e-5)
    assert record["test_accuracy_by_epoch"] == pytest.approx(fit.curves["test_accuracy"], abs=1e-5)
    assert record["objective_by_epoch"] == pytest.approx(fit.curves["objective"], rel=1e-4)
    model = load_classifier(fit.checkpoint, settings_of(run), loss, 10)
    with torch.no_grad():
        probs = torch.softmax(model(torch.from_numpy(dataset.test.images)).double(), -1).numpy()
    hit = probs.argmax(1) == dataset.test.target
    assert record["accuracy"] == pytest.approx(hit.mean(), abs=1e-12)
    for name in ("ece_h", "ece_p"):  # cross-entropy: p is h
        assert record[name] == pytest.approx(binned_error(probs.max(1), hit), abs=1e-6)
    by_class = [binned_error(probs[:, k], dataset.test.target == k) for k in range(10)]
    assert record["sce_h"] == pytest.approx(np.mean(by_class), abs=1e-6)


@LEAF
def test_other_losses_are_trained_and_told_the_noise(tmp_path):
    run = tiny("ce+trim", math.inf, epochs=1)
    (record,) = run.run(Place(precision="32-true"))
    dataset = load_images("digits")
    counts = np.bincount(dataset.train.target)
    right = 0.8 * counts / (0.8 * counts + 0.2 / 9 * (counts.sum() - counts))  # of each label, by Bayes' rule
    loss = MemberLoss("ce+trim", math.inf, {"trim": (1 - right).tolist(), "num_classes": 10})
    fit = lightning.train_images(settings_of(run), dataset, tmp_path, loss=loss, noise_rate=0.2, machine=CPU)
    assert record["objective_by_epoch"] == pytest.approx(fit.curves["objective"], rel=1e-4)
    assert record["accuracy"] == pytest.approx(fit.curves["test_accuracy"][0], abs=1e-6)
    assert tiny("sce", math.inf).hyperparameters == {"sce": {"weights": (0.1, 1.0)}}
    with pytest.raises(ValueError, match="Expected `methods` to be losses that are not told the noise, .* webvision"):
        tiny("ce+trim", math.inf, dataset="webvision")


def test_a_run_depends_on_its_specification_alone():
    run = tiny("mgce", 1.0, epochs=1)
    records = run.run(Place())
    torch.rand(3)
    assert run.run(Place()) == records
    corrected, published = records
    assert (corrected["method"], published["method"]) == ("mgce", "mae_published")
    assert corrected["accuracy"] == published["accuracy"] and corrected["ece_h"] != published["ece_h"]
    assert "test_accuracy_by_epoch" not in published
    assert json.loads(json.dumps(records, allow_nan=False)) == records


@pytest.mark.nightly
def test_precision_is_mixed_where_the_device_multiplies_bfloat16(monkeypatch):
    dtypes = set()

    def look(module, args, output):
        if isinstance(module, torch.nn.Conv2d) and module.training:
            dtypes.add(output.dtype)

    handle = register_module_forward_hook(look)
    try:
        for amx, want in ((True, torch.bfloat16), (False, torch.float32)):
            monkeypatch.setattr(torch.cpu, "get_capabilities", lambda amx=amx: {"amx_bf16": amx}, raising=False)
            (record,) = tiny(epochs=1).run(Place())
            assert dtypes == {want} and record["precision"] == Place().image_precision
            dtypes.clear()
        monkeypatch.delattr(torch.cpu, "get_capabilities")  # PyTorch before 2.10
        assert Place().image_precision == "32-true"
    finally:
        handle.remove()
    assert Place(device="cpu", precision="bf16-mixed").image_precision == "bf16-mixed"
    with pytest.raises(ValueError, match="Expected `precision` to be one of '32-true', 'bf16-mixed', but got 'half'."):
        Place(precision="half")
    for device in ("meta", "nowhere"):
        with pytest.raises(ValueError, match="Expected `device` to be a device that this PyTorch can use, but got"):
            Place(device=device)


class StopError(Exception):
    pass


@pytest.mark.slow
@LEAF
def test_a_stopped_run_goes_on_and_ends_in_the_same_records(tmp_path, monkeypatch):
    def stop(done):
        if done == 1:
            raise StopError

    run, trained = tiny(epochs=2), []
    (want,) = run.run(Place(precision="32-true"))
    folder = tmp_path / run_name(document(run)) / "32-true"
    options = {"loss": MemberLoss("mgce", 1.4), "noise_rate": 0.2, "machine": CPU, "on_epoch": stop}
    with pytest.raises(StopError):
        lightning.train_images(settings_of(run), load_images("digits"), folder, **options)
    whole = lightning.train_images
    monkeypatch.setattr(lightning, "train_images", lambda *a, **k: whole(*a, on_epoch=trained.append, **k))
    assert run.run(Place(scratch=tmp_path, precision="32-true")) == [want]
    assert trained == [2]
    (folder / "best.ckpt").unlink()  # the checkpoints stay until the records are written, and this one was lost
    assert run.run(Place(scratch=tmp_path, precision="32-true")) == [want]
    assert trained == [2, 1, 2]
    run.run(Place(scratch=tmp_path, precision="bf16-mixed"))  # takes up nothing of the other precision
    assert trained == [2, 1, 2, 1, 2]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows locks no folders")
def test_a_run_that_another_command_is_at_is_one_sentence(tmp_path, monkeypatch):
    run, whole = tiny(), lightning.train_images
    name = run_name(document(run))
    what = f"Expected `out_dir` to be that of one command .* but got 'run {name}, which another"

    def with_another_command(*arguments, **keywords):
        with pytest.raises(ValueError, match=what):
            run.run(Place(scratch=tmp_path))
        return whole(*arguments, **keywords)

    monkeypatch.setattr(lightning, "train_images", with_another_command)
    assert len(run.run(Place(scratch=tmp_path))) == 1
    folder = tmp_path / name
    with alone_in(folder):
        remove(Place(scratch=tmp_path), name)
        assert folder.is_dir()
    remove(Place(scratch=tmp_path), name)
    assert not folder.exists()


def test_data_and_lightning_are_asked_for_before_anything_runs(tmp_path, monkeypatch):
    tiny().check(Place())
    with pytest.raises(FileNotFoundError, match="Expected `data_dir` to hold cifar-10"):
        tiny(dataset="cifar10").check(Place(DataSource(tmp_path)))
    with pytest.raises(ValueError, match="Expected `dataset` to be one of 'mnist'"):
        tiny(dataset="letter").check(Place(DataSource(tmp_path)))
    with pytest.raises(ValueError, match="Expected `device` to be a device"):
        Place(device="nowhere")
    monkeypatch.setattr(image_networks, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="Experiments on images need Lightning, which is not installed: "):
        tiny().check(Place())


def test_plans_have_the_settings_of_the_paper():
    runs = {item: module.plan(Options()) for item, module in ITEMS.items()}
    # data sets, noise rates, seeds, and 8 betas of MGCE and GCE, one of CE and MAE
    assert len(runs["table1"]) == 4 * 3 * 5 * 18
    assert len(runs["table2"]) == 3 * 3 * 5 * 2
    assert [len(runs[f"figure{n}"]) for n in (3, 4, 5)] == [3 * 5 * 2, 5 * 2, 5 * 2]
    for plan in runs.values():
        assert len({run_name(document(run)) for run in plan}) == len(plan)
        for run in plan:
            assert settings_of(run) == replace(PAPER[run.dataset], l1=run.l1)
    check_one_setting(
        [document(run) for run in {run for plan in runs.values() for run in plan}], items.PAPER.by_dataset
    )
    clean = {run for run in runs["table1"] if run.noise_rate == 0 and run.beta == 1.4}
    assert {run for run in runs["figure3"] if run.dataset != "tiny_imagenet"} < clean
    assert {run for run in runs["table2"] if run.l1 == 1e-5} < clean
    assert {run.l1 for run in runs["table2"]} == {1e-3, 1e-4, 1e-5}


def test_a_stem_epochs_and_noise_rates_can_be_asked_for():
    options = Options(noise_rates=(0.4,), settings={"stem": "imagenet", "epochs": 30}, seeds=1, methods=("ce",))
    for plan in (table1.plan(options), figure3.plan(replace(options, methods=("mgce",)))):
        assert plan and {(run.stem, run.epochs) for run in plan} == {("imagenet", 30)}
    assert {run.noise_rate for run in table1.plan(options)} == {0.4}
    whole = replace(options, settings={})
    assert {run.epochs for run in table1.plan(whole)} == {150}
    with pytest.raises(ValueError, match="Expected `noise_rate` to be one of 0.0, 0.2, 0.4, but got 0.3"):
        Options(noise_rates=(0.3,))
    with pytest.raises(ValueError, match="Expected `stem` to be one of 'cifar', 'imagenet', but got 'small'"):
        table1.plan(replace(options, settings={"stem": "small"}))
    (wide, *_) = table1.plan(replace(options, smoke=True))
    assert (wide.stem, wide.crop, wide.padding, wide.epochs) == ("imagenet", 32, 12, 2)


def test_human_labels_are_kept_with_the_network_of_the_paper():
    plan = table1.plan(Options(datasets=("cifar10n",), seeds=1, betas=(1.4,)))
    assert {(run.labels, run.architecture, run.noise_rate) for run in plan} == {("worst", "resnet34", 0.0)} and len(
        plan
    ) == 4
    (run,) = figure3.plan(Options(datasets=("cifar100n",), seeds=1, methods=("mgce",)))
    assert (run.labels, run.architecture) == ("noisy", "resnet34")
    part = Images(np.zeros((2, 1, 1, 1), np.uint8), np.array([0, 1]), {"worst": np.array([1, 0])})
    dataset = ImageDataset("cifar10n", ("a", "b"), part, part)
    assert images.with_labels(dataset, "worst").train.target.tolist() == [1, 0]
    assert images.with_labels(dataset, "worst").test.target.tolist() == [0, 1]
    assert images.with_labels(dataset, "") is dataset
    with pytest.raises(ValueError, match="Expected `labels` to be one of 'worst', but got 'best'"):
        images.with_labels(dataset, "best")


def test_human_labels_have_rows_of_their_own():
    record = finished("mgce", 1.4, 0, dataset="cifar10n")
    people = replace(record, specification={**record.specification, "labels": "worst"})
    result = table1.render([people])
    assert {row["dataset"] for row in result.numbers} == {"cifar10n (worst)"}
    assert {row["noise_rate"] for row in result.numbers} == {0.0}
    assert {row["dataset"] for row in figure3.render([people]).numbers} == {"cifar10n (worst)"}


def test_a_smoke_run_shows_its_own_figure_alone():
    digits = finished("mgce", 1.4, 0, dataset="digits")
    for own, shown in (("table1", {figure3}), ("figure4", {figure4}), ("figure5", {figure5})):
        run = replace(digits, specification={**digits.specification, "smoke": own})
        assert {figure for figure in (figure3, figure4, figure5) if figure.render([run])} == shown


def test_smoke_plans_are_small():
    plan = table1.plan(Options(smoke=True))
    assert len(plan) == 3 * 2 * 6 and {run.dataset for run in plan} == {"digits"}
    (run, *_) = figure4.plan(Options(smoke=True, datasets=("webvision",)))
    assert (run.architecture, run.stem, run.size, run.epochs) == ("resnet50", "imagenet", 32, 2)


ITEMS = {"table1": table1, "table2": table2, "figure3": figure3, "figure4": figure4, "figure5": figure5}


def mgce_reproduce(*arguments):
    app = typer.Typer()
    app.command()(reproduce)
    result = CliRunner().invoke(app, [*map(str, arguments), "--jobs", "1"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


class Sketch:
    """Runs of which the first of a method on a data set trains; others move its numbers by draws of their own."""

    def __init__(self):
        self.trained, self.run = {}, ImageRun.run

    def __call__(self, run, place):
        key = (run.dataset, run.architecture, run.method, run.beta, run.smoke)
        if key not in self.trained:
            self.trained[key] = self.run(run, place)
        rng = np.random.default_rng(list(run_name(document(run)).encode()))
        return [self.moved(record, run, rng) for record in self.trained[key]]

    @staticmethod
    def moved(record, run, rng):
        measures = ("accuracy", "validation_accuracy", "ece_h", "ece_p", "sce_h", "sce_p")
        moved = {name: record[name] * rng.uniform(0.5, 1) for name in measures if record[name] is not None}
        curves = {
            name: (np.array(record[name]) * rng.uniform(0.5, 1)).tolist()
            for name in record
            if name.endswith("_by_epoch")
        }
        return {**record, **moved, **curves, "seed": run.seed, "noise_rate": run.noise_rate}


@pytest.fixture(scope="module", params=["sketched", pytest.param("trained", marks=pytest.mark.nightly)])
def smoke(tmp_path_factory, request):
    """The folder of all items in miniature, and what the commands printed."""
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "sketched":
            sketch = Sketch()
            patched.setattr(ImageRun, "run", lambda run, place: sketch(run, place))
        yield reproduced(tmp_path_factory)


def reproduced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("smoke")
    options = ["--smoke", "--seeds", 2, "--out-dir", folder]
    methods = {
        "table1": "mgce,mgce@1",
        "table2": "mgce,gce",
        "figure3": "gce",
        "figure4": "mgce,gce,ce",
        "figure5": "mgce",
    }
    printed = {item: mgce_reproduce(item, *options, "--methods", methods[item]) for item in methods}
    return folder, printed


def of_tables(folder):
    """The runs of Tables 1 and 2 and Figure 3, which share them."""
    return [run for run in Runs(folder).read().values() if run.specification["smoke"] == "table1"]


@pytest.mark.slow
def test_smoke_of_every_item(smoke):
    folder, printed = smoke
    for item in ITEMS:
        title = (folder / f"{item}-smoke.txt").read_text().splitlines()[0]
        assert title in printed[item] and title.startswith(f"Smoke run, no results: {item[:-1].title()} {item[-1]}: ")
        assert set(pd.read_csv(folder / f"{item}-smoke.csv").run) == {"smoke"}
        assert r"\begin{tabular}" in (folder / f"{item}-smoke.tex").read_text()
    page = (folder / "report-smoke.html").read_text()
    titles = {(folder / f"{item}-smoke.txt").read_text().splitlines()[0] for item in ITEMS}
    assert titles < set(check_structure(page).text("h2"))
    assert page.count("data:image/png;base64,") == 5  # with figures 1 and 2
    assert list((folder / "scratch").iterdir()) == []


@pytest.mark.slow
def test_table1_is_the_mean_of_the_records_that_validation_chose(smoke):
    folder, _ = smoke
    runs = [run for run in of_tables(folder) if run.specification["l1"] == 1e-5]
    records = pd.DataFrame([record for run in runs for record in run.records]).astype({"beta": float})
    records["method"] = [row_name(*one) for one in zip(records["method"], records["beta"], strict=True)]
    assert len(records) == 3 * 2 * (2 + 1 + 1) + 2 * 2  # those at beta = 1.4 are of Table 2
    table = pd.read_csv(folder / "table1-smoke.csv").set_index(["noise_rate", "method"])
    for (noise, method), group in records.groupby(["noise_rate", "method"]):
        best = group.sort_values(["validation_accuracy", "beta"], ascending=[False, True]).groupby("seed").head(1)
        for measure in ("accuracy", "ece_h", "ece_p", "sce_h", "sce_p"):
            found = table.loc[(noise, method)]
            assert found[measure] == pytest.approx(100 * best[measure].mean())
            assert found[f"{measure}_std"] == pytest.approx(100 * best[measure].std())
    assert {(noise, m) for noise, m in table.index if not math.isnan(table.accuracy[noise, m])} == {
        *((noise, m) for noise in (0, 0.2, 0.4) for m in ("mgce", "mgce@1", "mae_published")),
        (0, "gce"),  # of Table 2
    }


@pytest.mark.slow
def test_table2_is_the_mean_of_the_validation_accuracies(smoke):
    folder, _ = smoke
    table = pd.read_csv(folder / "table2-smoke.csv")
    assert table.l1.tolist() == [1e-3] * 2 + [1e-4] * 2 + [1e-5] * 2 and set(table.seeds) == {2}
    runs = of_tables(folder)
    for row in table.itertuples():
        found = [
            record
            for run in runs
            if run.specification["l1"] == row.l1 and run.specification["noise_rate"] == 0
            for record in run.records
            if (record["method"], record["beta"]) == (row.method, 1.4)
        ]
        for name in ("validation_accuracy", "accuracy"):
            values = [100 * record[name] for record in found]
            assert getattr(row, name) == pytest.approx(np.mean(values))
            assert getattr(row, f"{name}_std") == pytest.approx(np.std(values, ddof=1))


@pytest.mark.slow
def test_figure3_shows_the_curves_of_the_records(smoke):
    folder, _ = smoke
    table = pd.read_csv(folder / "figure3-smoke.csv")
    runs = [run for run in of_tables(folder) if run.specification["l1"] == 1e-5]
    for label, method in (("MGCE", "mgce"), ("GCE", "gce")):
        curves = [
            record["test_accuracy_by_epoch"]
            for run in runs
            if run.specification["noise_rate"] == 0
            for record in run.records
            if (record["method"], record["beta"]) == (method, 1.4)
        ]
        assert len(curves) == 2
        np.testing.assert_allclose(table[table.series == label]["mean"], 100 * np.mean(curves, 0), rtol=1e-12)


@pytest.mark.nightly
def test_webvision_in_files(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    root, rows = tmp_path / "webvision", {"train_filelist_google.txt": 40, "val_filelist.txt": 10}
    (root / "info").mkdir(parents=True)
    (root / "info" / "synsets.txt").write_text("".join(f"n{i} name\n" for i in range(1000)))
    for (listing, n), folder in zip(rows.items(), (root, root / "val_images_256"), strict=True):
        (folder / "q").mkdir(parents=True)
        for i in range(n):
            pixels = rng.integers(0, 256, (12, 16, 3)).astype(np.uint8)
            image.fromarray(pixels).save(folder / "q" / f"{i}.png")
        (root / "info" / listing).write_text("".join(f"q/{i}.png {i % 50}\n" for i in range(n)))
    monkeypatch.setattr(image_folders, "WEBVISION_ROWS", rows)
    options = ["--smoke", "--seeds", 1, "--dataset", "webvision", "--data-dir", tmp_path, "--out-dir", tmp_path / "out"]
    printed = mgce_reproduce("figure4", *options)
    assert "MGCE" in printed and {path.stem for path in (tmp_path / "out").glob("*.csv")} == {
        "figure1",
        "figure2",
        "figure4-smoke",
    }
    (specification, _) = (run.specification for run in Runs(tmp_path / "out").read().values())
    assert specification["architecture"] == "resnet50" and specification["validation_size"] == 0
    assert set(asdict(ImageSettings())) < set(specification)
