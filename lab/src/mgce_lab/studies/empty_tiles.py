"""Count the tiles of a head's gradient that are zero: what a kernel that skips them can save.

`python -m mgce_lab.studies.empty_tiles` counts tiles of normal logits of several scales, and of a small language model
that it trains for some minutes on the docstrings of installed packages. A tile is empty if none of its classes has a
probability in any of its rows, and none is a row's label.
"""

from __future__ import annotations

import argparse
import json
import re
import site
from collections import Counter
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn

from mgce._files import replacing
from mgce._machine import describe
from mgce.functional import linear_mgce_loss, mgce_loss

BETA = 1.4
TILES = ((64, 64), (128, 64), (128, 128), (128, 256))  # rows and classes: what matrix units multiply at a time
SCALES = (0.3, 1.0, 3.0, 10.0)
ROWS, CLASSES = 1024, 128_000
PACKAGES = ("torch", "numpy", "scipy", "sklearn", "pandas", "matplotlib")
WORDS, CONTEXT, FEATURES = 8192, 8, 128
STEPS, BATCH = 2000, 512


def active(logits: Tensor, target: Tensor) -> Tensor:
    """Return which classes of which rows have a gradient that is not zero."""
    logits = logits.detach().requires_grad_()
    mgce_loss(logits, target, beta=BETA, reduction="sum").backward()
    assert logits.grad is not None
    return logits.grad != 0


def empty_shares(mask: Tensor) -> dict[str, float]:
    """Return the share of empty tiles by their size, of a mask of rows and classes."""
    shares = {}
    for rows, classes in TILES:
        whole = mask[: len(mask) // rows * rows, : mask.shape[1] // classes * classes]
        tiles = whole.unflatten(1, (-1, classes)).unflatten(0, (-1, rows)).any(3).any(1)
        shares[f"{rows} x {classes}"] = 1 - tiles.double().mean().item()
    return shares


def of_normal_logits(scale: float, zipf: bool) -> dict[str, object]:
    """Count the tiles of independent normal logits; with `zipf`, the logarithm of a class's frequency is added."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(ROWS, CLASSES, generator=generator) * scale
    frequency = 1 / torch.arange(1.0, CLASSES + 1)
    if not zipf:
        frequency = torch.ones(CLASSES)
    logits += frequency.log()
    target = torch.multinomial(frequency, ROWS, replacement=True, generator=generator)
    mask = active(logits, target)
    return {"support": mask.sum(1).double().mean().item(), "empty": empty_shares(mask)}


def corpus() -> tuple[Tensor, list[str]]:
    """Return the words of the docstrings of installed packages as numbers, the most frequent word 0, and the words."""
    folder, text = Path(site.getsitepackages()[0]), []
    for package in PACKAGES:
        for path in sorted((folder / package).rglob("*.py")):
            for found in re.findall(r'"""(.*?)"""', path.read_text(errors="ignore"), re.DOTALL):
                text += re.findall(r"[a-z]+|[.,;:()]", found.lower())
    words = [word for word, _ in Counter(text).most_common(WORDS)]
    number = {word: at for at, word in enumerate(words)}
    return torch.tensor([number[word] for word in text if word in number]), words


class Model(nn.Module):
    """Features of the next word from the words before it, and the head."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 64)
        self.hidden = nn.Sequential(
            nn.Flatten(), nn.Linear(64 * CONTEXT, 512), nn.GELU(), nn.Linear(512, FEATURES), nn.LayerNorm(FEATURES)
        )
        self.head = nn.Linear(FEATURES, WORDS)

    def forward(self, context: Tensor) -> Tensor:
        """Return the features of each row of words."""
        features: Tensor = self.hidden(self.words(context))
        return features


def of_language_model() -> dict[str, object]:
    """Train the model, and count the tiles of rows that follow one another in text that it was not trained on."""
    torch.manual_seed(0)
    text, words = corpus()
    windows = text.unfold(0, CONTEXT + 1, 1)
    trained, held_out = windows[: -2 * 8192], windows[-8192:]
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, STEPS)
    for step in range(STEPS):
        rows = trained[torch.randint(len(trained), (BATCH,))]
        loss = linear_mgce_loss(model(rows[:, :-1]), model.head.weight, rows[:, -1], model.head.bias, beta=BETA)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 200 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    with torch.no_grad():
        logits = model.head(model(held_out[:, :-1]))
    target = held_out[:, -1]
    mask = active(logits, target)
    by_label = mask[target.argsort(stable=True)]
    shuffled = mask[:, torch.randperm(WORDS)]
    return {
        "words": len(text),
        "vocabulary": len(words),
        "accuracy": (logits.argmax(1) == target).double().mean().item(),
        "support": mask.sum(1).double().mean().item(),
        "classes without any probability or label": (~mask.any(0)).double().mean().item(),
        "empty": {
            "rows in order, words in random order": empty_shares(shuffled),
            "rows in order, words by frequency": empty_shares(mask),
            "rows by label, words by frequency": empty_shares(by_label),
        },
    }


def main() -> None:
    """Count all tiles, and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks/empty_tiles.json"))
    path: Path = parser.parse_args().out
    result: dict[str, object] = {"machine": describe(), "beta": BETA}
    result["normal logits"] = {
        f"s = {scale:g}, {'frequencies of Zipf' if zipf else 'equal frequencies'}": of_normal_logits(scale, zipf)
        for zipf, scale in product((False, True), SCALES)
    }
    result["language model"] = of_language_model()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
