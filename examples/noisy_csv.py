"""
A noisy CSV, end to end
=======================

A table whose labels are partly wrong: fit a model, have it certified, predict new rows, and get a list of the labels to
look at again. Everything is on the command line.

Runs in half a minute, in a checkout: `pip install '.[cli]' && python examples/noisy_csv.py`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

# %%
# The table: 569 tumours, with the label of one in ten made wrong.

frame = load_breast_cancer(as_frame=True).frame
wrong = np.random.default_rng(0).random(len(frame)) < 0.1
frame["target"] = np.where(wrong, 1 - frame["target"], frame["target"])
scratch = tempfile.TemporaryDirectory()
folder = Path(scratch.name)
frame.to_csv(folder / "tumours.csv", index=False)
frame.drop(columns="target").head(3).to_csv(folder / "new.csv", index=False)


def mgce(*arguments):
    """Run a command as in a terminal, and show what it prints."""
    print("$ mgce", *arguments)
    command = [sys.executable, "-m", "mgce", *arguments]
    print(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)


# %%
# `mgce fit` keeps a quarter of the rows for the certificate, and chooses the model on the others. The noise rate, where
# you know it, gives a bound against right labels. `--model auto`, the default, tries more models.

mgce("fit", "tumours.csv", "--target", "target", "--model", "linear", "--noise-rate", "0.1")

# %%
# New rows get a class, both probabilities, and the set of classes that the model cannot rule out.

mgce("predict", "tumours.mgce", "new.csv")
print((folder / "new-predictions.csv").read_text())

# %%
# All rows, counted from 1, by how suspect their label is: with time to look at a few, look at the first.

ranked = pd.read_csv(folder / "tumours.suspects.csv")
found = np.cumsum(wrong[ranked["row"] - 1])
plt.plot(100 * np.arange(1, len(found) + 1) / len(found), 100 * found / wrong.sum())
plt.plot([0, 100], [0, 100], color="0.6", linestyle="--")
plt.xlabel("labels looked at, the most suspect first, %")
plt.ylabel("wrong labels found, %")
plt.show()
scratch.cleanup()
