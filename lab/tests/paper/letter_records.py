"""Records as runs on letter leave them, with numbers made by hand."""

from mgce_lab.engine.store import Run


def letter(method, beta, seed, validation, accuracy, noise_rate=0.2):
    measures = {m: 0.1 for m in ("ece_h", "ece_p", "sce_h", "sce_p")}
    curves = {"test_accuracy_by_epoch": [0.5, accuracy], "objective_by_epoch": [0.6, 0.3]}
    keys = {"method": method, "beta": beta, "seed": seed, "noise_rate": noise_rate, "validation_accuracy": validation}
    return {**keys, "accuracy": accuracy, **measures, **curves}


def as_run(*records, **specification):
    return Run({"kind": "tabular", "dataset": "letter", **specification}, records, {})
