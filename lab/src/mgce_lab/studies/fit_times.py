"""How long fits take against their peers, on letter: `mgce_lab.studies.fit_times` prints and saves the ratios."""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import mgce
from mgce import GCELoss, MGCEClassifier, MGCELoss
from mgce._machine import describe
from mgce.desk.files import preprocessor
from mgce_lab.compare.compare import BETAS
from mgce_lab.data import load
from mgce_lab.studies import estimators_page
from mgce_lab.studies.embeddings_growth import NOISE, made
from mgce_lab.training.ensemble import fit_ensemble
from mgce_lab.training.member_losses import MemberLoss
from mgce_lab.training.settings import TrainingSettings

LAMBDA0 = 1e-3  # the automatic one of MGCEClassifier for letter
TARGETS = (1e-3, 1e-4)  # how far above its optimum an objective may end, as a share of it
LINEAR_BETAS = (1.4, 2.0)
# Numbers of rows, features and classes: one at a time grows.
GROWTH = (
    *((n, 50, 10) for n in (2_000, 4_000, 8_000, 16_000)),
    *((2_000, d, 10) for d in (100, 200, 400)),
    *((2_000, 50, k) for k in (20, 40, 80)),
)
EPOCHS = 2  # few, since all take the same time
# The networks of a seed and a noise rate of Table 3: eight betas of two losses, cross-entropy and MAE.
MEMBERS = (
    *(MemberLoss(family, beta) for family in ("mgce", "gce") for beta in BETAS),
    MemberLoss("mgce", math.inf),
    MemberLoss("mgce", 1.0),
)


def main() -> None:
    """Measure linear fits against LogisticRegression, cross-validation against single fits, and batched training."""
    parser = argparse.ArgumentParser(prog="python -m mgce_lab.studies.fit_times", description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", (ConvergenceWarning))
    table = load("letter", data_dir=options.data_dir)
    X = np.asarray(preprocessor(table.features).fit_transform(table.features))
    results: dict[str, Any] = {"machine": describe(), "turns": options.turns, "growth": growth(options.turns)}
    print(json.dumps(results["growth"]), flush=True)
    for name, part in (("linear", linear), ("batched", batched)):
        results[name] = part(X, table.target, options.turns)
        print(name, json.dumps(results[name]), flush=True)
    path = estimators_page.FIT_TIMES
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    estimators_page.main()


def medians(contestants: Mapping[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """Call each contestant in turn; give the median seconds of each."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(turns):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in taken.items()}


def growth(turns: int) -> list[dict[str, Any]]:
    """Time fits by default on simulated rows, a fifth of them with wrong labels, of growing numbers n, d and k."""
    results = []
    for n, d, k in GROWTH:
        X, right = made(n, d, k)
        rng = np.random.default_rng(1)
        y = np.where(rng.random(n) < NOISE, (right + rng.integers(1, k, n)) % k, right)
        runs = {
            "LogisticRegression": lambda X=X, y=y: LogisticRegression(max_iter=1000).fit(X, y),
            "MGCEClassifier": lambda X=X, y=y: MGCEClassifier().fit(X, y),
        }
        results.append({"n": n, "d": d, "k": k, "seconds": medians(runs, turns)})
    return results


def linear(X: Any, y: Any, turns: int) -> list[dict[str, Any]]:
    """Time complete fits, each with the fewest iterations that end within a target of the optimum of its own objective.

    MGCE's penalty of a coefficient is lambda0 times the standard deviation, over the rows, of the product of its
    feature and the indicator of its class. That of L1 logistic regression is one number, the mean of these. The optimum
    is what 300 iterations of saga or 1,000 of L-BFGS-B reach.
    """
    k = len(np.unique(y))
    labels, psi = np.eye(k)[y], np.column_stack([X, np.ones(len(X))])
    first, second = labels.T @ psi / len(X), labels.T @ psi**2 / len(X)
    penalty = LAMBDA0 * float(np.sqrt(second - first**2).mean())

    def saga(max_iter: int) -> Any:
        strength = 1 / (len(X) * penalty)  # scikit-learn's C multiplies the sum of the losses
        return LogisticRegression(solver="saga", l1_ratio=1, C=strength, tol=0, max_iter=max_iter, random_state=0).fit(
            X, y
        )

    def saga_objective(fit: Any) -> float:
        f = torch.from_numpy(fit.decision_function(X))
        loss = torch.nn.functional.cross_entropy(f, torch.from_numpy(y))
        return float(loss) + penalty * float(abs(fit.coef_).sum())

    def ours(beta: float) -> Callable[[int], Any]:
        def fit(max_iter: int) -> Any:
            return MGCEClassifier(beta=beta, lambda0=LAMBDA0, solver="lbfgs", tol=0, max_iter=max_iter).fit(X, y)

        return fit

    fits: dict[str, tuple[Callable[[int], Any], Callable[[Any], float], int]] = {
        "LogisticRegression": (saga, saga_objective, 300)
    }
    for beta in LINEAR_BETAS:
        fits[f"beta = {beta:g}"] = (ours(beta), lambda fit: float(fit.minimax_risk_), 1000)
    optima = {name: objective(fit(most)) for name, (fit, objective, most) in fits.items()}
    results = []
    for target in TARGETS:
        iterations = {
            name: _first(lambda i, f=fit, o=objective: o(f(i)), optima[name] * (1 + target), most)
            for name, (fit, objective, most) in fits.items()
        }
        runs = {name: lambda f=fits[name][0], i=i: f(i) for name, i in iterations.items()}
        results.append({"target": target, "iterations": iterations, "seconds": medians(runs, turns)})
    return results


def _first(objective: Callable[[int], float], aim: float, most: int) -> int:
    """Return the fewest iterations after which the objective is at most `aim`, by doubling and then bisection.

    That supposes that the objective falls with every iteration, which it does up to small ripples.
    """
    low, high = 1, 1
    while high < most and objective(high) > aim:
        low, high = high + 1, min(2 * high, most)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if objective(middle) <= aim else (middle + 1, high)
    return low


def batched(X: Any, y: Any, turns: int) -> dict[str, Any]:
    """Time the networks of `MEMBERS` on letter: all at once, and one at a time in plain PyTorch."""
    features = torch.as_tensor(X, dtype=torch.float32)
    # Of 20,000 rows, as in Table 3: a fifth for the test, a tenth of the others for validation.
    parts = [(features[rows], torch.from_numpy(y[rows])) for rows in np.split(np.arange(len(y)), [14400, 16000])]
    stacked = [(x[None], target[None]) for x, target in parts]

    def together() -> None:
        generator = torch.Generator().manual_seed(0)
        watch = {"test": stacked[2]}
        settings = TrainingSettings(epochs=EPOCHS)
        fit_ensemble(
            *stacked[0],
            MEMBERS,
            settings,
            num_classes=26,
            validation=stacked[1],
            watch=watch,
            generators=[generator],
        )

    runs = {"batched": together, "one at a time": lambda: [one_network(member, parts) for member in MEMBERS]}
    mgce.MGCELoss(beta=1.4)(torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0]))  # loads the kernel
    return {"networks": len(MEMBERS), "epochs": EPOCHS, "seconds": medians(runs, turns)}


def one_network(member: MemberLoss, parts: list[tuple[Tensor, Tensor]]) -> None:
    """Train one network with PyTorch's modules and optimizer, with the steps, penalty, clipping and curves of ours."""
    (x, target), *watched = parts
    settings = TrainingSettings(epochs=EPOCHS)
    net = nn.Sequential(nn.Linear(x.shape[1], 1024), nn.ReLU(), nn.Linear(1024, 26))
    criterion: nn.Module = {"mgce": MGCELoss, "gce": GCELoss}[member.family](beta=member.beta)
    if math.isinf(member.beta):
        criterion = nn.CrossEntropyLoss()
    parameters = list(net.parameters())
    last = net[2].weight
    optimizer = torch.optim.SGD(parameters, lr=settings.lr, momentum=settings.momentum)
    best, state = -1.0, net.state_dict()
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(settings.batch_size):
            optimizer.zero_grad()
            (criterion(net(x[rows]), target[rows]) + settings.l1 * last.abs().sum()).backward()
            nn.utils.clip_grad_norm_(parameters, settings.max_norm or math.inf)
            optimizer.step()
        with torch.no_grad():
            accuracies = [float((net(f).argmax(1) == labels).float().mean()) for f, labels in watched]
        if accuracies[0] > best:
            best, state = accuracies[0], {name: value.clone() for name, value in net.state_dict().items()}
    net.load_state_dict(state)


if __name__ == "__main__":
    main()
