"""The loss of a row of two classes, and how hard it pulls, by the margin of its label."""

import matplotlib.pyplot as plt
import torch

from mgce import GCELoss, MGCELoss

margin = torch.linspace(-6, 4, 401, requires_grad=True)
logits = torch.stack([margin / 2, -margin / 2], 1)
target = torch.zeros(len(margin), dtype=torch.long)
losses = {
    "cross-entropy": GCELoss(beta=float("inf"), reduction="none"),
    "GCE, beta 1.4": GCELoss(beta=1.4, reduction="none"),
    "MGCE, beta 1.4": MGCELoss(beta=1.4, reduction="none"),
    "MGCE, beta 5": MGCELoss(beta=5.0, reduction="none"),
}
# Where lines meet, the lower one is wider.
styles = (("#d55e00", 5, "-"), ("#b57f00", 2, "-"), ("#0072b2", 2, "-"), ("#56b4e9", 2, "--"))
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for (name, loss), (colour, width, dash) in zip(losses.items(), styles, strict=True):
    values = loss(logits, target)
    (slope,) = torch.autograd.grad(values.sum(), margin, retain_graph=True)
    left.plot(margin.detach(), values.detach(), dash, color=colour, linewidth=width, label=name)
    right.plot(margin.detach(), -slope, dash, color=colour, linewidth=width)
left.set(xlabel="logit of the label minus that of the other class", ylabel="loss")
right.set(xlabel="logit of the label minus that of the other class", ylabel="pull (minus the slope)")
left.legend(frameon=False)
for axes in (left, right):
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
