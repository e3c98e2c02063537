"""Define the settings of a fit to a table."""

from __future__ import annotations

from dataclasses import dataclass

from mgce._messages import check_choice, expected, expected_share
from mgce.desk.tables.choice import AUTO, NAMED
from mgce.desk.tables.rows import Split

METRICS = ("accuracy", "balanced")


@dataclass(frozen=True)
class FitPlan(Split):
    """The settings of :func:`mgce.desk.tables.fit.run`, which fits a classifier to a table.

    The result depends only on these settings and the table.

    Attributes:
        model: a key of :data:`~mgce.desk.tables.choice.NAMED`, or "auto" to learn from corrected labels.
        noise_rate: the share of labels that are wrong: see :func:`mgce.certify`.
        noise_type: what is assumed about wrong labels: see :func:`mgce.certify`.
        coverage: share of rows whose label prediction sets are to contain, in (0, 1).
        delta: probability with which the certificate may fail.
        metric: the measure by which the model is fitted: "accuracy" or "balanced". Balanced accuracy is the
            mean over labels of the accuracy on rows of one label. For "balanced", rows are weighted so that all labels
            have equal weight.
    """

    model: str = AUTO
    noise_rate: float = 0.0
    noise_type: str = "symmetric"
    coverage: float = 0.9
    delta: float = 0.05
    metric: str = "accuracy"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("model", self.model, (AUTO, *NAMED))
        check_choice("metric", self.metric, METRICS)
        if not 0 <= self.seed < 2**32:  # what NumPy's generators take
            raise ValueError(expected("seed", "an integer in [0, 2^32)", self.seed))
        if not 0 < self.coverage < 1:
            raise ValueError(expected_share("coverage", "a float in (0, 1)", self.coverage))
