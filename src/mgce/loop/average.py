"""Average the weights of a network over its training, and copy networks and states, also of random generators."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Average:
    """A moving average of a network's weights and buffers, in float32 or more, whatever the dtype of the network.

    In bfloat16, a step of less than a 256th of a weight would be rounded away. Steps after which the network holds a
    number that is not finite are left out.

    Args:
        network: the network, of which a copy is made. The first step copies its weights.
    """

    def __init__(self, network: nn.Module) -> None:
        self._module = copied(network).requires_grad_(False)
        # Of each tensor the average itself. That in the module is the same, or rounded to the dtype of the network.
        self._precise = {name: _precise(tensor) for name, tensor in _tensors(self._module).items()}
        self._dtypes = {name: tensor.dtype for name, tensor in _tensors(self._module).items()}
        # Steps that were averaged, and steps that were left out, where the network is: no step waits for a device.
        self._counts = torch.zeros(2, dtype=torch.int64, device="cpu")

    def update(self, network: nn.Module, decay: float) -> None:
        """Multiply the average by `decay`, and add 1 - `decay` times the weights of the network."""
        theirs = _tensors(network)  # in another dtype and on another device than at first, if a trainer moved it
        self._dtypes = {name: tensor.dtype for name, tensor in theirs.items()}
        self._precise = {name: ours.to(theirs[name].device) for name, ours in self._precise.items()}
        average = list(self._precise.values())
        new = [theirs[name].to(ours.dtype) for name, ours in self._precise.items()]
        finite = _are_finite(new)
        self._counts = self._counts.to(finite.device)
        share = torch.where(self._counts[0] == 0, 1, 1 - decay).float()
        for ours, tensor in zip(average, new, strict=True):
            kept = torch.where(finite.to(ours.device), tensor, ours)
            if ours.is_floating_point() or ours.is_complex():
                ours.lerp_(kept, share.to(ours.device, ours.dtype))
            else:
                ours.copy_(kept)
        self._counts += torch.stack([finite, ~finite])

    @property
    def left_out(self) -> int:
        """Number of steps that were left out."""
        return int(self._counts[1])

    @property
    def module(self) -> nn.Module:
        """The network with the averaged weights, in the dtype of the network."""
        for name, tensor in _named(self._module).items():
            tensor.data = self._precise[name].to(self._dtypes[name])
        return self._module

    def state_dict(self) -> dict[str, Any]:
        """Return the precise average, under the names of :class:`torch.optim.swa_utils.AveragedModel`."""
        state = {"n_averaged": self._counts[0].clone(), "left_out": self._counts[1].clone()}
        named = self.module.state_dict().items()
        return state | {f"module.{name}": self._precise.get(name, value) for name, value in named}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the average from a state, of this class or of :class:`torch.optim.swa_utils.AveragedModel`."""
        named = {name.removeprefix("module."): value for name, value in state.items() if name.startswith("module.")}
        self._module.load_state_dict(named)
        for name in self._precise.keys() & named.keys():
            self._precise[name].copy_(named[name])
        self._counts = torch.tensor([int(state["n_averaged"]), int(state.get("left_out", 0))], device="cpu")


Copied = TypeVar("Copied")


def copied(thing: Copied) -> Copied:
    """Return a deep copy of a network or a state; tensors inside that have a gradient function are detached.

    PyTorch refuses to copy such a tensor. A network may hold one from its last step, such as an auxiliary loss.
    """
    with _WithoutGraph():
        return copy.deepcopy(thing)


class _WithoutGraph(TorchFunctionMode):
    """A mode of PyTorch in which the deep copy of a tensor with a gradient function is a detached clone."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is not Tensor.__deepcopy__ or args[0].is_leaf:
            return function(*args, **(kwargs or {}))
        tensor, memo = args
        memo[id(tensor)] = tensor.detach().clone()
        return memo[id(tensor)]


def _tensors(network: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and buffers of a network by name, without gradients."""
    return {name: tensor.detach() for name, tensor in _named(network).items()}


def _named(network: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and buffers of a network by name."""
    return {**dict(network.named_parameters()), **dict(network.named_buffers())}


def _precise(tensor: Tensor) -> Tensor:
    """Return a tensor in float32 if its dtype has fewer digits, otherwise the tensor itself."""
    return tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor


def _are_finite(tensors: list[Tensor]) -> Tensor:
    """Return whether no tensor has NaN or an infinite number, as a tensor ()."""
    numbers = [tensor for tensor in tensors if tensor.numel() and (tensor.is_floating_point() or tensor.is_complex())]
    flags = [torch.linalg.vector_norm(tensor, torch.inf).isfinite() for tensor in numbers]  # one reading of each
    return torch.stack([flag.to(flags[0].device) for flag in flags]).all() if flags else torch.tensor(True)


def random_states() -> list[Tensor]:
    """Return the states of PyTorch's random generators: on the CPU, and on each GPU."""
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [])]


def set_random(states: list[Tensor]) -> None:
    """Restore states of PyTorch's random generators, as far as this machine has these."""
    cpu, *cuda = states
    torch.set_rng_state(cpu)
    if cuda and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(cuda)
