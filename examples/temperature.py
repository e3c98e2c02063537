"""
Temperature scaling
===================

Calibration after training: a temperature for the link of MGCE, with an interval around each calibration error.

Runs in seconds: `python examples/temperature.py`.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from mgce import MGCEClassifier
from mgce.functional import worst_case_probs
from mgce.losses import TemperatureScaling
from mgce.metrics import bootstrap_interval, expected_calibration_error, reliability_curve
from mgce.noise import corrupt, symmetric

X, y = load_digits(return_X_y=True)
X = StandardScaler().fit_transform(X)
noisy = corrupt(torch.from_numpy(y), symmetric(10, 0.3), torch.Generator().manual_seed(0)).labels.numpy()
X, X_clean, noisy, _, _, y_clean = train_test_split(X, noisy, y, test_size=0.5, random_state=0)
clf = MGCEClassifier(beta=1.4, lambda0=0.003, tol=1e-3).fit(X, noisy)

# Half of the rows with right labels to fit the temperature, half to measure with.
f, target = torch.from_numpy(clf.decision_function(X_clean)), torch.from_numpy(y_clean)
scaling = TemperatureScaling(beta=1.4).fit(f[::2], target[::2])
outputs = {"p as trained": worst_case_probs(f[1::2], beta=1.4), "p scaled": scaling(f[1::2])}
print(f"temperature {scaling.temperature:.2f}")
figure, panels = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for axes, (name, probs) in zip(panels, outputs.items(), strict=True):
    reliability_curve(probs, target[1::2]).plot(axes)
    axes.set_title(name)
    generator = torch.Generator().manual_seed(0)
    error = bootstrap_interval(expected_calibration_error, probs, target[1::2], generator, n_resamples=300)
    print(f"{name:13} ECE {error.value:.3f}, 95 % interval {error.lower:.3f} to {error.upper:.3f}")
plt.show()
