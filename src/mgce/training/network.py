"""Compute many multilayer perceptrons of one shape at once, by batched matrix products.

The gradient is computed by explicit formulas instead of autograd. Then the memory of the activations can be reused in
the next step. On the CPU, allocating memory for many networks takes more time than the computation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

# Rows of each group that `forward` takes at once: the default batch size of training, so that its activations are as
# large as those of a step.
ROWS_AT_ONCE = 128


class Scratch:
    """Named memory buffers that are reused by the next call with the same name."""

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def __call__(self, name: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """Return an uninitialised tensor of this shape, with the dtype and device of `like`."""
        size = math.prod(shape)
        if name not in self._buffers or self._buffers[name].numel() < size:
            self._buffers[name] = like.new_empty(size)
        return self._buffers[name][:size].view(*shape)


class EnsembleMLP(nn.Module):
    r"""A grid of multilayer perceptrons with ReLU units: G groups with M members each.

    .. math:: f = W_L^\top \max(0, \dots \max(0, W_1^\top x + b_1) \dots) + b_L

    Args:
        groups: number of groups G; all M members of a group get the same rows.
        layers: weight (M*G, fan-in, fan-out) and bias (M*G, 1, fan-out) of each layer; member m of group g has the
            index `m * G + g`.
    """

    def __init__(self, groups: int, layers: Iterable[tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.groups = groups
        weights, biases = zip(*layers, strict=True)
        self.weights = nn.ParameterList(weights)
        self.biases = nn.ParameterList(biases)

    @classmethod
    def initial(
        cls, members: int, sizes: Sequence[int], generators: Sequence[torch.Generator], like: Tensor | None = None
    ) -> EnsembleMLP:
        """Construct an ensemble with random weights, which are the same for all members of a group.

        The weights are uniform in ±1/sqrt(fan-in), as in `nn.Linear`.

        Args:
            members: number of members M.
            sizes: number of units of each layer: features d, hidden units, classes k.
            generators: random generator on the CPU for the weights of each group.
            like: a tensor with the dtype and device that the weights should have.
        """

        def uniform(fan_in: int, rows: int, columns: int) -> Tensor:
            drawn = torch.stack([torch.rand(rows, columns, generator=generator) for generator in generators])
            one = (2 * drawn - 1) / math.sqrt(fan_in)
            return (one if like is None else one.to(like)).repeat(members, 1, 1)

        return cls(len(generators), [(uniform(d, d, width), uniform(d, 1, width)) for d, width in pairwise(sizes)])

    @classmethod
    def joined(cls, models: Sequence[EnsembleMLP]) -> EnsembleMLP:
        """Combine ensembles with the same groups into one ensemble, which has the members of all of them."""
        weights = [torch.cat(layer) for layer in zip(*(model.weights for model in models), strict=True)]
        biases = [torch.cat(layer) for layer in zip(*(model.biases for model in models), strict=True)]
        return cls(models[0].groups, zip(weights, biases, strict=True))

    def forward(self, features: Tensor) -> Tensor:
        """Map features (groups G, rows n, d) to logits (G, networks M, n, k), without a graph for autograd."""
        scratch = Scratch()
        parts = [self.layers(rows, scratch)[-1].clone() for rows in torch.split(features, ROWS_AT_ONCE, dim=1)]
        return self.grid(torch.cat(parts, dim=1))

    def grid(self, values: Tensor) -> Tensor:
        """Return a view of the values of M networks in each of G groups, (M*G, ...), as (G, M, ...)."""
        return torch.unflatten(values, 0, (-1, self.groups)).transpose(0, 1)

    @torch.no_grad()
    def layers(self, features: Tensor, scratch: Scratch) -> list[Tensor]:
        """Return the outputs of every layer, (M*G, n, width), for features (G, n, d); the last item is the logits."""
        outputs = [features.repeat(len(self.weights[0]) // self.groups, 1, 1)]
        for depth, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if depth > 0:
                outputs[-1].relu_()
            shape = (*outputs[-1].shape[:2], weight.shape[2])
            outputs.append(torch.bmm(outputs[-1], weight, out=scratch(f"output {depth}", shape, weight)).add_(bias))
        return outputs

    @torch.no_grad()
    def backward(self, outputs: list[Tensor], grad: Tensor, scratch: Scratch) -> None:
        """Compute the `.grad` of every parameter from the gradient of the logits; `outputs` are overwritten."""
        for depth in reversed(range(len(self.weights))):
            weight, bias = self.weights[depth], self.biases[depth]
            torch.bmm(outputs[depth].mT, grad, out=weight.grad)
            torch.sum(grad, 1, keepdim=True, out=bias.grad)
            if depth > 0:
                grad = torch.bmm(grad, weight.mT, out=scratch(f"gradient {depth}", outputs[depth].shape, weight))
                grad.mul_(outputs[depth].sign_())  # the derivative of max(0, .): 1 where a unit was active, else 0
