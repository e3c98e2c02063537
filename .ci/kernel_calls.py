"""Record what the tests of the CPU kernels call, with results, for machines without PyTorch: a plugin of pytest.

`KERNEL_CALLS=FILE pytest -p kernel_calls tests/kernels/test_cpu.py` with this folder on PYTHONPATH; `kernel_replay.cpp`
reads the file. Each call is numbers of eight bytes: which function, the size of its numbers, its result, how many rows,
and for trimming three more. Its arrays follow: the length in bytes, the first array in the same memory, and the bytes
before the call and after it.
"""

import ctypes
import os
import struct
from pathlib import Path

from mgce.kernels import cpu

MOST = 200_000  # bytes of one call: the others are as those that fit
calls = Path(os.environ["KERNEL_CALLS"]).open("wb")  # noqa: SIM115
plans: dict[int, bytes] = {}
load = cpu.library
seen: set[int] = set()


def copy(address: int, size: int) -> bytes:
    """Return the bytes at an address; none at a null pointer."""
    return ctypes.string_at(address, size) if address else b""


def record(kind: int, width: int, call, numbers, arrays) -> int:
    """Call the kernel, and write the call with its numbers and arrays: (address, bytes) each."""
    before = [copy(*array) for array in arrays]
    result = call()
    known = hash((kind, width, *numbers, *before))
    if sum(map(len, before)) <= MOST and known not in seen:
        seen.add(known)
        aliases = [next(i for i, other in enumerate(arrays) if other[0] == array[0]) for array in arrays]
        calls.write(struct.pack(f"{3 + len(numbers)}q", kind, width, result, *numbers))
        for array, content, alias in zip(arrays, before, aliases, strict=True):
            calls.write(struct.pack("2q", len(content), alias) + content + copy(array[0], len(content)))
    return result


class Recorder:
    """The library, whose functions record what they are called with."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name, width in (("float32", 4), ("float64", 8)):
            setattr(self, f"mgce_make_plan_{name}", self._plan(getattr(library, f"mgce_make_plan_{name}")))
            setattr(self, f"mgce_loss_{name}", self._loss(getattr(library, f"mgce_loss_{name}"), width))
            setattr(
                self, f"mgce_softmax_loss_{name}", self._softmax(getattr(library, f"mgce_softmax_loss_{name}"), width)
            )
            setattr(self, f"mgce_trim_{name}", self._trim(getattr(library, f"mgce_trim_{name}"), width))
        self.mgce_free_plan = library.mgce_free_plan

    def _plan(self, make):
        def made(options):
            address = make(options)
            plans[address] = bytes(options._obj)
            return address

        return made

    def _loss(self, run, width: int):
        def loss(packed: bytes) -> int:
            plan, n, *pointers = struct.unpack("11Q", packed)[:9]
            options = ctypes.create_string_buffer(plans[plan], len(plans[plan]))
            k = struct.unpack_from("q", options)[0]
            sizes = [n * k * width, n * 8, n * k * width, k * width, n * width, width, n * k * width]
            arrays = [(ctypes.addressof(options), len(plans[plan])), *zip(pointers, sizes, strict=True)]
            return record(0, width, lambda: run(packed), (n,), arrays)

        return loss

    def _softmax(self, run, width: int):
        def loss(packed: bytes) -> int:
            options, n, *pointers = struct.unpack("10Q", packed)[:8]
            k = struct.unpack("q", copy(options, 8))[0]
            sizes = [n * k * width, n * 8, k * width, n * width, width, n * k * width]
            return record(1, width, lambda: run(packed), (n,), [(options, 48), *zip(pointers, sizes, strict=True)])

        return loss

    def _trim(self, run, width: int):
        def trim(*arguments: int) -> int:
            n, losses, target, ignored, labels, window, stored, count, share, kept = arguments
            sizes = [n * width, n * 8, (labels + 1) * (window + 1) * width, (labels + 1) * 8, labels * 8, n]
            arrays = list(zip((losses, target, stored, count, share, kept), sizes, strict=True))
            return record(2, width, lambda: run(*arguments), (n, ignored, labels, window), arrays)

        return trim


recorder = Recorder(load())
cpu.library = lambda: recorder
