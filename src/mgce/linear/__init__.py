"""Minimising MGCE over logits that are linear in the features: the convex problem that risk and estimators share.

Names and shapes, the same in all files, for n rows, k classes and d features:

- `features`, psi: (n, d), a row psi_i for each row of the data;
- `coef`, mu: (k, d), and *margins* f = psi mu', (n, k), the logits;
- `weight`, w: (n,), the weight of each row in every mean; they sum to one;
- phi: (n,), the normalizer of each row of margins; h and `p`, (n, k), its minimax and its worst-case probabilities;
- the *moments* of probabilities p, `sum_i w_i p_i (x) psi_i`, (k, d): row y is the mean of p_iy psi_i over
  the rows of the data. `p (x) psi` is the array (k, d) of all products p_y psi_j;
- `tau`: (k, d), an estimate of the true moments, and `lambda_`, (k, d), how far they may be from it; it is at the same
  time the weight of the L1 penalty.

The *uncertainty set* has all probabilities p whose moments are within lambda of tau.
"""

from mgce.linear.progress import EmptyUncertaintySetError, LinearFit
from mgce.linear.solver import fit_linear

__all__ = ["EmptyUncertaintySetError", "LinearFit", "fit_linear"]
