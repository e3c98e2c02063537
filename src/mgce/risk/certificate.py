r"""Certificates: upper bounds on the errors of a fixed classifier, from labelled examples that it has not seen."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from mgce._rounding import confidence_text, percent_up, rounded_up

# Of the samples in the worst cell of docs/certificates.md where noise depends on the row: the bound under the condition
# was printed, and false.
FALSE_WHERE_BROKEN = 0.93
CAUTION = (
    "Labels by people break the condition: they are wrong more often where the classifier is unsure. In simulated "
    f"worlds of such labels, the bound was false in up to {FALSE_WHERE_BROKEN:.0%} of the samples."
)


def unseen_examples(drawn: str) -> str:
    """Return as text the assumption that examples were drawn as `drawn` says, and not used to make the classifier."""
    return f"the examples are {drawn}, and were not used to train, select, tune or calibrate the classifier"


# A fact on the bounds, which no reader has to check: sentences leave it out.
SHUFFLED = "a random order of the examples follows from their values, so that the order of the file does not matter"
FRESH = unseen_examples("independent draws from the distribution of interest")


@dataclass(frozen=True)
class Bounds:
    """Upper bounds on errors; None for a bound that was not asked for."""

    argmax_error: float | None = None
    randomized_error: float | None = None
    alpha_risk: float | None = None


@dataclass(frozen=True)
class RiskCertificate:
    """Upper bounds on a classifier's errors; all hold at once, with probability `1 - delta` over the drawn examples."""

    argmax_error: float | None  # probability that the most probable class is wrong, or, if `against_given`, that it
    # disagrees with the given label; None if not asked for, or if it holds only under a condition: see `conditional`
    randomized_error: float | None  # that a class drawn from the probabilities h is wrong, 1 - E h_y; None likewise
    alpha_risk: float | None  # expected alpha-loss, E beta (1 - h_y^(1/beta)); None if `beta` is
    delta: float  # probability with which any of them may fail
    n: int  # examples
    n_classes: int
    beta: float | None  # that of the alpha-risk
    noise_rate: float  # share of wrong labels that was stated
    assumptions: tuple[str, ...]  # clauses that complete "This assumes that"
    refuted: str | None = None  # what the labels contradict, completes "the labels refute"; the bounds then count
    # disagreements with the labels as given
    condition_number: float | None = None  # of the transition matrix
    looked_up: int | None = None  # examples whose right labels were looked up; None if none were given
    noise_tested: bool | None = None  # whether the labels could have refuted the stated noise; None if it is not stated
    # to depend on the right label alone
    conditional: Bounds | None = None  # bounds that hold only if labels are wrong as stated, whatever the example;
    # these are not under the plain names
    looked_up_again: int | None = None  # examples that were looked up a second time; None if none were given
    rows_error: float | None = None  # upper bound on the share of wrong most probable classes among those of these
    # examples that could be looked up; it holds with confidence 1 - delta by itself; None if there is no such bound
    per_point: float | None = None  # by how much `conditional.argmax_error` is larger for a rate that is 0.01 smaller

    @property
    def assumed(self) -> Bounds:
        """The bounds of `conditional`, which hold only if labels are wrong as stated; without any, the plain bounds."""
        return self.conditional or Bounds(self.argmax_error, self.randomized_error, self.alpha_risk)

    @property
    def against_given(self) -> bool:
        """Whether errors are counted against the given labels: no noise was stated, or the labels refute it."""
        stated = self.noise_rate != 0 or self.looked_up is not None or self.noise_tested is not None
        return self.refuted is not None or not stated

    @property
    def caution(self) -> str:
        """What makes conditional bounds false, and how often they were false, as sentences; "" without such bounds."""
        return "" if self.conditional is None else CAUTION

    def __str__(self) -> str:
        """Return the certificate as sentences, with what it assumes; errors are in percent."""
        fails = "disagrees with the given label" if self.against_given else "is wrong"
        like = f"of examples drawn{' and labelled' if self.against_given else ''} like these"
        start = f"With confidence {confidence_text(1 - self.delta)} over n = {self.n} examples"
        if self.conditional is not None:
            start = f"If labels are wrong as stated, whatever the example, then w{start[1:]}"
        parts, bounds = [], self.assumed
        if bounds.argmax_error is not None:
            parts.append(f"the most probable class {fails} in at most {percent_up(bounds.argmax_error)} {like}")
        if bounds.randomized_error is not None and bounds.randomized_error != bounds.argmax_error:
            drawn = "a class that is drawn at random by the predicted probabilities"
            link = "and " if parts and bounds.alpha_risk is None else ""
            most = f"in at most {percent_up(bounds.randomized_error)}"
            parts.append(f"{link}{drawn}, {most}" if parts else f"{drawn} {fails} {most} {like}")
        if bounds.alpha_risk is not None:
            link = "and " if parts else ""
            parts.append(f"{link}the alpha-risk at beta = {self.beta:g} is at most {rounded_up(bounds.alpha_risk)}")
        if self.refuted is not None:
            start += f", the labels refute {self.refuted}. No correction was made: against the labels as given"
        assumed = "; ".join(clause for clause in self.assumptions if clause != SHUFFLED)
        return f"{start}: {', '.join(parts)}. {self._basis}This assumes that {assumed}."

    @property
    def _basis(self) -> str:
        """Return sentences on the noise: that nothing is assumed of the noise, or whether the assumption was tested."""
        if self.looked_up is not None:
            again = "" if self.looked_up_again is None else f", {self.looked_up_again:,} of them a second time"
            said = f"{self.looked_up:,} of these examples were looked up{again}; nothing is assumed of the noise. "
            if self.rows_error is None:
                return said
            own = "Of the examples that could be looked up, the most probable class is wrong in at most"
            return f"{said}{own} {percent_up(self.rows_error)}, by itself with the same confidence. "
        if self.noise_tested is None or self.refuted is not None:
            return ""
        tested = "The labels on which the classifier is most sure do not refute the condition, nor do they prove it."
        said = f"{tested if self.noise_tested else 'Whether that is so was not tested.'} {self.caution} "
        if self.per_point is None:
            return said
        moved = f"the bound on the most probable class is {percent_up(self.per_point)[:-1]} points larger"
        return f"{said}For a rate that is 0.01 smaller, {moved}. "

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the certificate as a dictionary of plain Python values."""
        return {**asdict(self), "assumptions": list(self.assumptions), "caution": self.caution}

    def to_json(self) -> str:
        """Return the fields of the certificate as JSON; an infinite beta is the string "inf"."""
        fields = self.to_dict()
        if self.beta is not None and math.isinf(self.beta):
            fields["beta"] = "inf"
        return json.dumps(fields, allow_nan=False)
