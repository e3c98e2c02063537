"""Tensors that stand for those of Apple's GPUs, where there are none: on `mps`, and refused in float64."""

import torch
from torch.utils._pytree import tree_map


class OnApple(torch.Tensor):
    """A tensor whose values are on the CPU, and which says that they are not."""

    @staticmethod
    def __new__(cls, values):
        if values.dtype == torch.float64:
            raise TypeError(
                "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
            )
        return torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=values.dtype, device="mps")

    def __init__(self, values):
        self.values_here = values

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        leaves = kwargs.get("device") is not None and torch.device(kwargs["device"]).type == "cpu"
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        here = tree_map(lambda x: x.values_here if isinstance(x, cls) else x, (args, kwargs))
        result = function(*here[0], **here[1])
        return result if leaves else tree_map(lambda x: cls(x) if isinstance(x, torch.Tensor) else x, result)
