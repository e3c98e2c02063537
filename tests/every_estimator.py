"""Every estimator, made small: what holds for all of them is tested over this table."""

import importlib

import pytest

from mgce import estimators

MADE = {
    "LabelCorrectionClassifier": {"n_estimators": 12, "n_components": 50, "random_state": 0},
    "MGCEBoostingClassifier": {
        "max_iter": 10,
        "min_samples_leaf": 5,
        "forest": estimators.MGCEForestClassifier(8, splitter="best", min_samples_leaf=5, random_state=0),
        "random_state": 0,
    },
    "MGCEClassifier": {},
    "MGCEClassifierCV": {"betas": (1.4, 5.0), "lambda0s": (1e-2,), "cv": 2},
    "MGCEEmbeddingClassifier": {"random_state": 0},
    "MGCEForestClassifier": {"n_estimators": 8, "min_samples_leaf": 5, "random_state": 0},
    "MGCEFourierClassifier": {"n_components": 50, "random_state": 0},
    "MGCEMLPClassifier": {
        "hidden_layer_sizes": (16,), "learning_rate_init": 0.01, "max_iter": 30, "random_state": 0,
    },
}  # fmt: skip
FEW = {"n_estimators": 20, "learning_rate": 0.3, "min_child_weight": 0.1, "early_stopping": False, "random_state": 0}
LEAVES = {"lightgbm": {"params": {"min_data_in_leaf": 1, "min_data_in_bin": 1}}}  # it asks for 20 rows in a leaf
BOOSTED = {"xgboost": "MGCEXGBClassifier", "lightgbm": "MGCELGBMClassifier"}


def make(name, **parameters):
    """Make the estimator of that name, or skip the test where its library is missing."""
    if name in MADE:
        return getattr(estimators, name)(**MADE[name] | parameters)
    pytest.importorskip(name)
    return getattr(importlib.import_module(f"mgce.integrations.{name}"), BOOSTED[name])(
        **FEW | LEAVES.get(name, {}) | parameters
    )


EVERY = [*MADE, *(pytest.param(name, marks=pytest.mark.integration) for name in BOOSTED)]
