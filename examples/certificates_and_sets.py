"""
Certificates and prediction sets
================================

How wrong can a classifier be? Labelled rows that it has not seen bound its error, for any model and also where some of
those labels are wrong. Prediction sets say instead, row by row, which classes cannot be ruled out.

Runs in seconds: `python examples/certificates_and_sets.py`.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mgce import MGCEClassifier, certify
from mgce.noise import corrupt, symmetric
from mgce.sets import calibrate

X, y = load_digits(return_X_y=True)
X, X_rest, y, y_rest = train_test_split(X, y, test_size=0.6, random_state=0)
X_fresh, X_new, y_fresh, y_new = train_test_split(X_rest, y_rest, test_size=0.4, random_state=0)
model = make_pipeline(StandardScaler(), MGCEClassifier(beta=1.4, lambda0=0.003, tol=1e-3)).fit(X, y)
fresh, new = model.predict_proba(X_fresh), model.predict_proba(X_new)
print(certify(y_fresh, fresh))

# %%
# With more rows a bound comes closer to the error. Three in ten labels wrong cost width, not validity, if the rate is
# stated; without it the bound would be about agreement with wrong labels.

noisy = corrupt(torch.from_numpy(y_fresh), symmetric(10, 0.3), torch.Generator().manual_seed(0)).labels.numpy()
sizes = np.array([50, 100, 200, 400, len(y_fresh)])
right = [certify(y_fresh[:n], fresh[:n], bounds=["argmax"]).argmax_error for n in sizes]
wrong = [certify(noisy[:n], fresh[:n], bounds=["argmax"], noise_rate=0.3).assumed.argmax_error for n in sizes]
plt.plot(sizes, right, "o-", label="bound, right labels")
plt.plot(sizes, wrong, "s-", label="bound, 30 % of the labels wrong")
plt.axhline((new.argmax(1) != y_new).mean(), color="0.5", linestyle="--", label="error on new rows")
plt.xlabel("fresh labelled rows")
plt.ylabel("error of the most probable class")
plt.ylim(0, None)
plt.legend()
plt.show()

# %%
# Sets that hold the right class 98 times in a hundred, made of the worst-case probabilities: they rank more finely
# than h.

worst_case = model[-1].worst_case_proba
sets = calibrate(y_fresh, worst_case(model[0].transform(X_fresh)), alpha=0.02)
members = sets.predict(worst_case(model[0].transform(X_new)))
print(sets)
covered = members[np.arange(len(y_new)), y_new].mean()
print(f"On new rows: {covered:.1%} hold the right class, {members.sum(1).mean():.2f} classes in a set.")
