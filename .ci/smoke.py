"""Use an installed mgce as a stranger would who installed the core alone."""

import importlib.util
from pathlib import Path

import torch
from sklearn.datasets import load_iris

import mgce
from mgce.kernels import dispatch

assert "site-packages" in mgce.__file__, mgce.__file__
assert not [name for name in ("lightning", "torchmetrics", "typer") if importlib.util.find_spec(name)]
assert (Path(mgce.__file__).parent / "py.typed").exists()
logits, target = torch.randn(8, 5, requires_grad=True), torch.randint(5, (8,))
assert dispatch.obstacle_of_machine(logits, 1.4) is None, dispatch.obstacle_of_machine(logits, 1.4)
criterion = mgce.MGCELoss(beta=1.4)
criterion(logits, target).backward()
assert logits.grad is not None and logits.grad.isfinite().all()
torch.testing.assert_close(criterion.link(logits).sum(-1), torch.ones(8))
X, y = load_iris(return_X_y=True)
clf = mgce.MGCEClassifier().fit(X, y)
assert clf.score(X, y) > 0.9
for name in mgce.__all__:
    getattr(mgce, name)
print(clf.certify(X, y))
print(f"mgce {mgce.__version__} works with PyTorch {torch.__version__}.")
