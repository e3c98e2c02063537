"""The loss of a row of two classes by the margin of its label: losses that are convex, and losses that are bounded."""

import matplotlib.pyplot as plt
import torch

from mgce_lab.losses import robust_loss

margin = torch.linspace(-8, 4, 401)
logits = torch.stack([margin / 2, -margin / 2], 1)
target = torch.zeros(len(margin), dtype=torch.long)
# Name, settings, its name in the picture, colour, width, dash: where lines meet, the lower one is wider.
PANELS = {
    "convex: a wrong label may cost any amount": (
        ("ce", {}, "cross-entropy", "#d55e00", 5, "-"),
        ("mgce", {"beta": 1.4}, "MGCE, beta 1.4", "#0072b2", 2, "-"),
        ("unhinged", {}, "unhinged", "#00906a", 2, "--"),
    ),
    "bounded: a wrong label costs at most a constant": (
        ("gce", {}, "GCE", "#9b6bc9", 5, "-"),
        ("mae", {}, "MAE", "#0072b2", 2, "-"),
        ("nce", {}, "NCE", "#d55e00", 2, "--"),
    ),
}
figure, panels = plt.subplots(2, 1, figsize=(6, 7), sharex=True, layout="constrained")
for axes, (title, losses) in zip(panels, PANELS.items(), strict=True):
    for name, settings, label, colour, width, dash in losses:
        values = robust_loss(name, **settings, reduction="none")(logits, target)
        axes.plot(margin, values, color=colour, linestyle=dash, linewidth=width, label=label)
    axes.set(title=title, ylabel="loss")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
panels[1].set_xlabel("logit of the label minus that of the other class")
