"""Draw simulated tables to look at: `python -m mgce_lab.table_model.pictures prior.png`."""

from __future__ import annotations

import argparse

import matplotlib.pyplot as plt
import torch

from mgce_lab.table_model.prior import NOISES, Shape, draw_tables

ROWS, COLUMNS = 4, 6


def main() -> None:
    """Draw the first two columns of tables, coloured by right class; a ring marks a wrong label."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.table_model.pictures", description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    context = 300
    tables = draw_tables(ROWS * COLUMNS, Shape(context, 1, 4), torch.Generator().manual_seed(options.seed))
    figure, axes = plt.subplots(ROWS, COLUMNS, figsize=(18, 12))
    for i, axis in enumerate(axes.flat):
        x, right = tables.x[i, :context], tables.right[i, :context]
        wrong = tables.given[i] != right
        axis.scatter(x[:, 0], x[:, 1], c=right, cmap="tab10", vmin=0, vmax=9, s=9)
        axis.scatter(x[wrong, 0], x[wrong, 1], facecolors="none", edgecolors="black", s=26, linewidths=0.5)
        title = f"{NOISES[tables.noise[i]]}, {wrong.float().mean():.0%} wrong, {tables.n_classes[i]} classes"
        axis.set_title(title, fontsize=8)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.tight_layout()
    figure.savefig(options.path, dpi=55)


if __name__ == "__main__":
    main()
