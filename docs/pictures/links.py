"""The probability of the first of two classes, by the difference of their logits, through each link."""

import matplotlib.pyplot as plt
import torch

from mgce.functional import minimax_probs, worst_case_probs

difference = torch.linspace(-4, 4, 401)
logits = torch.stack([difference / 2, -difference / 2], 1)
figure, panels = plt.subplots(1, 3, figsize=(9, 3.0), sharey=True, layout="constrained")
for axes, beta in zip(panels, (1.05, 1.4, 5.0), strict=True):
    axes.plot(difference, torch.softmax(logits, 1)[:, 0], color="#999999", linewidth=5, label="softmax")
    axes.plot(
        difference, worst_case_probs(logits, beta=beta)[:, 0], color="#009e73", linewidth=3, label="p, worst-case"
    )
    axes.plot(difference, minimax_probs(logits, beta=beta)[:, 0], color="#0072b2", label="h, minimax")
    axes.set(title=f"beta = {beta:g}", xlabel="difference of the logits")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("probability")
panels[0].legend(frameon=False)
