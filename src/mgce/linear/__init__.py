"""Minimise MGCE over logits that are linear in the features: the convex problem that `risk` and `estimators` use.

All files use these names and shapes, for n rows, k classes and d features:

- `features`, psi: (n, d), the features psi_i of each row i;
- `coef`, mu: (k, d), the coefficients; *margins* f = psi mu', (n, k), the logits of linear MGCE;
- `weight`, w: (n,), the weight of each row in every mean; the weights sum to one;
- phi: (n,), the normalizer of each row of margins; h and `p`, (n, k), its minimax and its worst-case probabilities;
- the *moments* of probabilities p, `sum_i w_i p_i (x) psi_i`, (k, d): row y is the weighted mean of p_iy psi_i. `p (x)
  psi` is the array (k, d) of all products p_y psi_j;
- `tau`: (k, d), an estimate of the true moments;
- `lambda_`: (k, d), how far the true moments may be from tau. It is also the weight of the L1 penalty.

The *uncertainty set* contains all probabilities p whose moments differ from tau by at most lambda.
"""

from mgce.linear.progress import EmptyUncertaintySetError, LinearFit
from mgce.linear.solver import fit_linear

__all__ = ["EmptyUncertaintySetError", "LinearFit", "fit_linear"]
