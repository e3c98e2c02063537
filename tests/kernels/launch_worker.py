"""Launches GPU kernels without a GPU, each through Triton and then past it; a line of JSON for each call.

A driver that does nothing stands in for NVIDIA's: kernels are compiled, and what would be launched is written down.
"""

import json
import sys
from types import SimpleNamespace

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from mgce.kernels import cuda_launch
from mgce.kernels.options import LossArguments, LossOptions

launched: list[list] = []
known: dict[int, int] = {}  # numbers of the tensors of a call, by their addresses


def described(tensor):
    """Return the number of a tensor of the call, or the type and shape of one that was made for the launch."""
    return known.get(tensor.data_ptr(), [str(tensor.dtype), *tensor.shape])


def tensors(arguments):
    """Yield the tensors in nested tuples."""
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            yield argument
        elif isinstance(argument, tuple):
            yield from tensors(argument)


class Launcher:
    """Writes down what a kernel is launched with."""

    def __init__(self, source, metadata):
        self.kernel = metadata.name, metadata.num_warps

    def __call__(self, x, y, z, stream, function, packed, metadata, enter, exit, *arguments):
        values = [described(value) if isinstance(value, torch.Tensor) else value for value in arguments]
        launched.append([*self.kernel, id(self), x, y, z, *values])


PROPERTIES = {"max_shared_mem": 232448, "multiprocessor_count": 132, "max_num_regs": 65536, "warpSize": 32}
driver.set_active(
    SimpleNamespace(
        utils=SimpleNamespace(
            load_binary=lambda *arguments: (1, 1, 0, 0, 1024),
            get_device_properties=lambda device: PROPERTIES,
            unload_module=lambda module: None,
        ),
        launcher_cls=Launcher,
        get_current_device=lambda: 0,
        get_current_stream=lambda device: 0,
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        map_python_to_cpp_type=str,
    )
)


def batch(n, k, *, beta=1.4, first=0, weight=None, options=None, soft=False):
    """Return a batch of which the logits begin `first` numbers behind an address that 16 divides."""
    logits = torch.zeros(n * k + first)[first:].view(n, k)
    target = torch.zeros(n, k) if soft else torch.zeros(n, dtype=torch.int64)
    numbers = torch.zeros(n), torch.zeros(n, k)
    return cuda_launch.Batch(logits, target, weight, torch.ones(()), *numbers, options or LossOptions(), beta)


def calls(which):
    """Yield calls that need kernels of other kinds, and calls that need the same kernel for other numbers."""
    for n in (1, 5, 7):
        yield cuda_launch.launch, batch(n, 10)
    yield cuda_launch.launch, batch(5, 10, first=1)
    if which == "some":
        return
    yield cuda_launch.launch, batch(5, 10, options=LossOptions(ignore_index=2**40))
    yield cuda_launch.launch, batch(5, 10, beta=1.3)
    yield cuda_launch.launch, batch(5, 10, beta=2.0, weight=torch.ones(10))
    yield cuda_launch.launch, batch(5, 16, beta=2.0, soft=True, options=LossOptions(label_smoothing=0.1))
    yield cuda_launch.launch, batch(3, 5000)
    roots, arguments = torch.zeros(3, 3), LossArguments(torch.zeros(3, dtype=torch.int64), None, LossOptions(), 1.4)
    for first in (0, 16):
        block = torch.zeros(3, 16)
        yield cuda_launch.write_block, block, first, roots, torch.ones(3), arguments, 32
    yield cuda_launch.scale, torch.zeros(3, 5000), torch.ones(())


def main():
    """Print for each call what Triton launches, what is launched past it, and whether an earlier call left a kernel."""
    for launch, *arguments in calls(sys.argv[1]):
        known.update({tensor.data_ptr(): number for number, tensor in enumerate(tensors(arguments))})
        before = dict(cuda_launch._compiled)
        cuda_launch._compiled.clear()
        launch(*arguments)
        cuda_launch._compiled.update({**cuda_launch._compiled, **before})
        looked_up = len(cuda_launch._compiled) == len(before)
        launch(*arguments)
        print(json.dumps({"looked up": looked_up, "ways": launched[-2:]}), flush=True)
        known.clear()


if __name__ == "__main__":
    main()
