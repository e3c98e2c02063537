"""Compare the GPU kernel of a device with plain operations before its first use, and refuse it if the results differ.

The code that a compiler generates depends on the device and on the versions of Triton and PyTorch. So each method of
reading rows is tested once for a machine and these versions. The test runs in a child process, because it may hang or
crash, and its result is stored in a file. After that each process compares once more, which takes milliseconds. To read
the compared numbers, the process waits for the device. No other part of a loss waits.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import mgce
from mgce._files import to_json, write_files
from mgce._messages import expected
from mgce.kernels import cuda, cuda_plan
from mgce.kernels.comparison import compare

# Seconds for the child to import PyTorch, compile up to five variants of the kernels and run them. That takes about ten
# on one core; the rest is for a machine that is busy with other things.
TIME_LIMIT = 120.0
_verdicts: dict[tuple[torch.device, torch.dtype, str], str | None] = {}  # why not, or None for a proved kernel
_lock = threading.Lock()  # several threads may make the first call


class Verdict(NamedTuple):
    """The result of the comparison in the child process."""

    obstacle: str | None
    compilation_s: float = 0.0  # with the first comparison
    comparison_s: float = 0.0
    lasting: bool = True  # not where there was no room for the child to begin: the next process tries again


def obstacle(logits: Tensor, beta: float, classes: int) -> str | None:
    """Return why the kernel cannot be trusted for this device, dtype, beta and number of classes; None if it can."""
    key = logits.device, logits.dtype, cuda_plan.way_of(classes, beta)
    if key not in _verdicts:
        if _is_captured(logits.device):
            return "it is not proved yet, which a captured graph cannot wait for; call mgce.prove_kernel before"
        with _lock:
            if key not in _verdicts:
                _verdicts[key] = _prove(*key, remembered=recall(*key))
    return _verdicts[key]


def prove_kernel(
    device: torch.device | str = "cuda", dtypes: Sequence[torch.dtype] = cuda.DTYPES
) -> dict[str, str | None]:
    """Compare the GPU kernel of a device with plain operations now, not at the first loss; repeat failed comparisons.

    Without this call the first eager loss on a device makes the comparison for its own dtype and number of classes. A
    CUDA graph that is captured before any comparison uses plain operations.

    Args:
        device: a CUDA device; other devices have no GPU kernel to compare.
        dtypes: of the logits, from float32, bfloat16 and float16.

    Returns:
        A dictionary with a key for each dtype and method of reading rows, such as `"float32 tiles"`. The value is None
        if the kernel is right, otherwise the reason why losses will use plain operations. Short rows are held in
        registers (`tiles`). Longer rows are read once, with `lists` of the classes that may have a probability, or in
        `chunks` if beta is 8 or more. The dictionary is empty for other devices.

    Raises:
        RuntimeError: if `device` is not a valid device.
        ValueError: if a dtype is not one of these three.

    Example:
        >>> prove_kernel("cpu")
        {}
    """
    device = torch.device(device)
    if device.type != "cuda":
        return {}
    for dtype in dtypes:
        if dtype not in cuda.DTYPES:
            raise ValueError(expected("dtypes", "of float32, bfloat16 and float16", dtype))
    missing = cuda.obstacle()
    if missing is None:
        device = torch.empty(0, device=device).device  # with its index, as tensors on it have it
    found = {}
    for dtype in dtypes:
        for way in cuda_plan.WAYS:
            name = f"{_name(dtype)} {way}"
            found[name] = missing or _prove_again(device, dtype, way)
    return found


def _is_captured(device: torch.device) -> bool:
    if device.type != "cuda":
        return False
    with cuda.on(device):
        return torch.cuda.is_current_stream_capturing()


def _prove_again(*key: Any) -> str | None:
    """Return why a kernel cannot be trusted; repeat the comparison in a child process unless a success is stored."""
    with _lock:
        before = recall(*key)
        _verdicts[key] = _prove(*key, remembered=before if before and before.obstacle is None else None)
        return _verdicts[key]


def _prove(device: torch.device, dtype: torch.dtype, way: str, *, remembered: Verdict | None) -> str | None:
    verdict = remembered
    if verdict is None:
        try:
            verdict = _try_in_child(device, dtype, way)
        except OSError as error:
            verdict = Verdict(f"no process can be started to compile it ({error})", lasting=False)
        if verdict.lasting:
            _remember(verdict, device, dtype, way)
    found = verdict.obstacle or compare(device, dtype, way)
    kernel = f"the GPU kernel ({way}, {_name(dtype)}, {device})"
    return found and f"{kernel} was tried, and {found}; mgce.prove_kernel tries it again"


def _try_in_child(device: torch.device, dtype: torch.dtype, way: str) -> Verdict:
    """Compile and compare the kernel in a child process; kill it and its own children after the time limit."""
    if not sys.executable or getattr(sys, "frozen", False):
        return Verdict("this program cannot start a Python process to compile it", lasting=False)
    paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    variables = {**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found, said = Path(folder, "verdict.json"), Path(folder, "said.txt")
        command = [*_command(), str(device), _name(dtype), way, str(found)]
        try:
            # What it says goes to a file: a pipe stays open as long as any process that it started.
            with said.open("wb") as out:
                child = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=variables, start_new_session=True
                )
            try:
                code = child.wait(TIME_LIMIT)
            finally:
                _end(child)
        except subprocess.TimeoutExpired:
            return Verdict(f"it was not compiled within {TIME_LIMIT:g} s")
        if found.exists():
            return Verdict(**json.loads(found.read_text()))
        last = (said.read_text(errors="replace").strip().splitlines() or [""])[-1]
        # A signal is a crash of the compiler or the driver. Without one the child did not come so far.
        return Verdict(f"the process that compiled it ended with code {code}: {last[:200]}", lasting=code < 0)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(child.pid, 9)  # it leads a group of its own; a compiler that it started is in there
        else:
            child.kill()
        child.wait()


def _command() -> list[str]:
    return [sys.executable, "-m", "mgce.kernels.proof"]


def answer(device: str, dtype: str, way: str, found: str) -> None:
    """Compare the kernel in the child process, and write the verdict to the file `found`."""
    key = torch.device(device), getattr(torch, dtype), way
    torch.zeros(1, device=key[0])  # where it raises, nothing is found out about the kernel
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        why = compare(*key)
        seconds.append(time.perf_counter() - start)
        if why is not None:
            break
    path, lasting = Path(found), "out of memory" not in str(why)  # others may have filled the device
    write_files(path.parent, {path.name: to_json(Verdict(why, seconds[0], seconds[-1], lasting)._asdict())})


def recall(device: torch.device, dtype: torch.dtype, way: str) -> Verdict | None:
    """Return the stored verdict for this machine and these versions; None if there is none."""
    try:
        kept = json.loads(_file(_facts(device, dtype, way)).read_text())
        return Verdict(kept["obstacle"], kept["compilation_s"], kept["comparison_s"])
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):  # RuntimeError: there is no home
        return None


def _remember(verdict: Verdict, device: torch.device, dtype: torch.dtype, way: str) -> None:
    facts = _facts(device, dtype, way)
    with contextlib.suppress(OSError, RuntimeError):  # then the next process tries again
        path = _file(facts)
        write_files(path.parent, {path.name: to_json({**facts, **verdict._asdict()})})


def _file(facts: dict[str, str]) -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "mgce", "kernels")
    return folder / (hashlib.sha256(to_json(facts)).hexdigest()[:32] + ".json")


def _facts(device: torch.device, dtype: torch.dtype, way: str) -> dict[str, str]:
    """Return everything that a verdict depends on: device, dtype, method of reading rows, machine and versions."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {"device": name, "dtype": _name(dtype), "way": way, **_versions()}


@functools.cache
def _versions() -> dict[str, str]:
    try:
        import triton
    except ImportError:
        version = "none"
    else:
        version = triton.__version__
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    kernels = hashlib.sha256(sources).hexdigest()[:16]  # an editable install changes under the same version
    return {
        "machine": platform.node(), "torch": torch.__version__, "triton": version,
        "mgce": mgce.__version__, "kernels": kernels,
    }  # fmt: skip


def report() -> dict[str, str]:
    """Return for each device and dtype the stored verdicts on the kernel as text; empty if no kernel can run."""
    if cuda.obstacle() is not None or not torch.cuda.is_available():
        return {}
    devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    return {f"{device} {_name(dtype)}": _known(device, dtype) for device in devices for dtype in cuda.DTYPES}


def _known(device: torch.device, dtype: torch.dtype) -> str:
    sentences = []
    for way in cuda_plan.WAYS:
        verdict = recall(device, dtype, way)
        if verdict is None:
            sentences.append(f"{way}: not tried yet")
        elif verdict.obstacle is None:
            times = f"compiled in {verdict.compilation_s:.1f} s, compared in {1e3 * verdict.comparison_s:.0f} ms"
            sentences.append(f"{way}: proved ({times})")
        else:
            sentences.append(f"{way}: refused, {verdict.obstacle}")
    return "; ".join(sentences)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


if __name__ == "__main__":
    answer(*sys.argv[1:])
