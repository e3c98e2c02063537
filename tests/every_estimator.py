"""Every estimator, made small: what holds for all of them is tested over this table."""

import importlib

import pytest

from mgce import estimators

MADE = {
    "LabelCorrectionClassifier": {"n_estimators": 12, "n_components": 50, "random_state": 0},
    "MGCEClassifier": {},
    "MGCEEmbeddingClassifier": {"random_state": 0},
    "MGCEForestClassifier": {"n_estimators": 8, "min_samples_leaf": 5, "random_state": 0},
}
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
