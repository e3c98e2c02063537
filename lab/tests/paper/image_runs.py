"""Runs on images that take a second, and records as such runs leave them."""

from dataclasses import fields

from mgce_lab.engine.store import Run
from mgce_lab.images.image_settings import ImageSettings
from mgce_lab.paper.images import ImageRun

TINY = {"width": 8, "padding": 1, "crop": 8, "epochs": 3, "batch_size": 64, "lr": 0.05}


def tiny(method="mgce", beta=1.4, **changes):
    options = {"dataset": "digits", "noise_rate": 0.2, "seed": 0, "method": method, "beta": beta, **TINY, **changes}
    return ImageRun(**options)


def settings_of(run):
    return ImageSettings(**{field.name: getattr(run, field.name) for field in fields(ImageSettings)})


def finished(
    method, beta, seed, *, dataset="cifar10", noise_rate=0.0, l1=1e-5, validation=0.9, accuracy=0.9, **setting
):
    """A run whose numbers are made by hand."""
    measures = {m: 0.1 for m in ("ece_h", "ece_p", "sce_h", "sce_p")}
    keys = {"method": method, "beta": beta, "noise_rate": noise_rate, "seed": seed}
    curves = {"test_accuracy_by_epoch": [0.5, accuracy], "objective_by_epoch": [0.6, 0.3]}
    record = {**keys, "validation_accuracy": validation, "accuracy": accuracy, **measures, **curves}
    setting = {"stem": "cifar", "epochs": 150, **setting}
    return Run({"kind": "images", "dataset": dataset, "l1": l1, **setting}, [record], {})
