"""
Boosted trees
=============

Boosted trees on digits of which four labels in ten are wrong: MGCE in XGBoost against its own cross-entropy.

Runs in seconds: `pip install xgboost-cpu && python examples/boosted_trees.py` (or xgboost).
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier

from mgce.integrations.xgboost import MGCEXGBClassifier
from mgce.noise import corrupt, symmetric

X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
noisy = corrupt(torch.from_numpy(y), symmetric(10, 0.4), torch.Generator().manual_seed(0)).labels.numpy()

ours = MGCEXGBClassifier(beta=1.4, random_state=0, n_jobs=1).fit(X, noisy)
# As careful as ours: the same learning rate, and stopped by the same kind of noisy rows.
X_train, X_held, y_train, y_held = train_test_split(X, noisy, test_size=0.1, random_state=0)
theirs = XGBClassifier(n_estimators=500, learning_rate=0.03, early_stopping_rounds=30, eval_metric="merror", n_jobs=1)
theirs.fit(X_train, y_train, eval_set=[(X_held, y_held)], verbose=False)
default = XGBClassifier(n_jobs=1).fit(X, noisy)
accuracies = {
    "MGCE": 100 * ours.score(X_test, y_test),
    "cross-entropy,\nstopped": 100 * (theirs.predict(X_test) == y_test).mean(),
    "cross-entropy,\nas installed": 100 * (default.predict(X_test) == y_test).mean(),
}
for name, accuracy in accuracies.items():
    print(f"{name}: {accuracy:.1f} % of the right labels".replace("\n", " "))
plt.bar(list(accuracies), list(accuracies.values()))
plt.ylabel("accuracy on right labels, %")
plt.show()
