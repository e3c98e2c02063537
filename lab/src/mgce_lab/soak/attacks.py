"""Small files made to run code, to crash or to fill the memory: each is opened in a process of its own, and used."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import lzma
import os
import resource
import signal
import struct
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mgce_lab.soak import bombs, forged_models

SECONDS = 60  # of the processor; on a busy machine it may take PATIENCE times as long
PATIENCE = 5
MODULES = (
    "mgce.desk.tables.model",
    "mgce_lab.data.cifar_n",
    "mgce.desk.files.table_files",
    "mgce.features.feature_files",
    "pandas",
    "sklearn.tree",
    "scipy.io",
)
MEMORY = 6 << 30  # beyond this the system itself ends the process
LARGE_MB = 1500  # a file of at most some megabytes that takes more than this fills the memory


def _packed(content: Any, arrays: int = 0, array: bytes = b"") -> bytes:
    """Return a file in the format of estimators that contains the same array several times."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED if arrays else zipfile.ZIP_STORED) as archive:
        archive.writestr(
            "content.json", json.dumps({"format": 1, "mgce": "1", "content": content}, separators=(",", ":"))
        )
        for number in range(arrays):
            archive.writestr(f"{number}.npy", array)
    return packed.getvalue()


def _npy(shape: str, size: int) -> bytes:
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(size)


def _load(path: Path) -> Any:
    from mgce.estimators import load

    return load(path).predict(np.ones((3, 2)))


def _with_array(times: int, shape: str, size: int) -> bytes:
    return _packed([{"array": 0}] * times, 1, _npy(shape, size))


def _forged_tree() -> bytes:
    from mgce.estimators.archive import pack
    from mgce.estimators.forest import MGCEForestClassifier
    from mgce.estimators.persistence import Writer, tree_of

    X = np.random.default_rng(0).normal(size=(40, 2))
    forest = MGCEForestClassifier(n_estimators=2, splitter="best", min_samples_leaf=2, random_state=0)
    forest.fit(X, X[:, 0] > 0).trees_.children[0] = 1 << 40
    writer = Writer()
    return pack(tree_of(forest, writer), writer.arrays)


def _random_state() -> bytes:
    from mgce.estimators import MGCEClassifier
    from mgce.estimators.archive import pack
    from mgce.estimators.persistence import Writer, tree_of

    writer = Writer()
    tree = tree_of(MGCEClassifier(random_state=np.random.RandomState(0)), writer)
    for pair in tree["object"][1]["random_state"]["random_state"][0]["dict"]:
        pair[1] = (1 << 31) - 100 if pair[0] == "pos" else pair[1]
    return pack(tree, writer.arrays)


def _predict(path: Path) -> Any:
    from mgce.desk.tables.model import TableModel

    model = TableModel.load(path)
    return model.predict(model.columns.select(forged_models.frame()))


def _draw(path: Path) -> Any:
    from mgce.estimators import load

    return load(path).random_state.randint(10)


def _idx(path: Path) -> Any:
    from mgce_lab.data.idx import read_idx

    return read_idx(path)


def _xz(path: Path) -> Any:
    from mgce_lab.data import cifar
    from mgce_lab.data.sources import DataSource

    return cifar._read(DataSource(path.parent), path.stem, cifar.CIFAR10)


def _table(path: Path) -> Any:
    from mgce.desk.files.table_files import read_frame

    return read_frame(path, "table")


def _features(path: Path) -> Any:
    from mgce.features.feature_files import read_features

    return read_features(path)


def _labels(path: Path) -> Any:
    from mgce_lab.data.cifar_n import read_labels

    return read_labels(path)


def _large_table() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1 << 20, np.int32)), pa.array(["a" * 10_000]))
    pq.write_table(pa.table({"a": column}), buffer := io.BytesIO(), compression="gzip", store_schema=False)
    return buffer.getvalue()


def _zipped(name: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, bytes(2 << 30))
    return packed.getvalue()


@dataclass(frozen=True)
class Attack:
    """A hostile file: its name, the function that makes its content, and the one that opens and uses it."""

    file: str
    make: Callable[[], bytes]
    read: Callable[[Path], Any]


def _forged(name: str) -> Attack:
    return Attack("m.mgce", forged_models.REFUSED.get(name) or forged_models.HARMLESS[name], _predict)


ATTACKS = {
    "model: a forged tree": Attack("m.mgce", _forged_tree, _load),
    "model: a random state that reads out of bounds": Attack("m.mgce", _random_state, _draw),
    "model: 2 GB of zeros": Attack("m.mgce", lambda: _with_array(1, f"({2 << 30},)", 2 << 30), _load),
    "model: one array of 1 MB 3,000 times": Attack(
        "m.mgce", lambda: _with_array(3000, f"({1 << 20},)", 1 << 20), _load
    ),
    "model: 600,000 parts": Attack("m.mgce", lambda: _packed(["a"] * 600_000), _load),
    "model: 5,000,000 empty lists": Attack("m.mgce", lambda: _packed([[]] * 5_000_000), _load),
    "model: an array that claims 2^62 bytes": Attack("m.mgce", lambda: _with_array(1, f"({1 << 62},)", 0), _load),
    "table's model: reads a file": _forged("an encoder that reads a file"),
    "table's model: reads /dev/zero": _forged("an encoder that reads /dev/zero"),
    "table's model: 10^9 polynomials": _forged("polynomials of 10^9 numbers a row"),
    "table's model: 10,000 processes": _forged("10,000 processes"),
    "idx: gzip of 4 GB": Attack("i.gz", lambda: gzip.compress(bytes(1 << 26), mtime=0) * 64, _idx),
    "cifar: xz of 8 GB in 32 streams": Attack("a.xz", lambda: lzma.compress(bytes(1 << 28), preset=0) * 32, _xz),
    "cifar: xz of 2 GB in one stream": Attack("a.xz", lambda: lzma.compress(bytes(2 << 30), preset=0), _xz),
    "table: Parquet of 10 GB": Attack("t.parquet", _large_table, _table),
    "labels: zip of 2 GB": Attack("l.pt", lambda: _zipped("archive/data.pkl"), _labels),
    **{
        name: Attack(file, make, _features if file.endswith(".npz") else _table)
        for name, (file, make) in bombs.BOMBS.items()
    },
}


def run(names: list[str] | None = None) -> dict[str, dict[str, Any]]:
    """Open and use every file; give for each its size, what came of it, the seconds and the memory."""
    for module in MODULES:  # which the processes inherit, so that their figures are of the files alone
        importlib.import_module(module)
    results = {}
    for name in names or ATTACKS:
        results[name] = _one(ATTACKS[name])
        print(f"{name:48} {results[name]}", flush=True)
    return results


def _one(attack: Attack) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, attack.file)
        _make(attack, path)
        resident, began, child = _resident(), time.monotonic(), os.fork()
        if child == 0:
            _in_the_child(attack, path)
        _, status, usage = os.wait4(child, 0)
        code = os.waitstatus_to_exitcode(status)
        came = {
            0: "value",
            1: "sentence",
            2: "traceback",
            3: "memory",
            -signal.SIGALRM: "hang",
            -signal.SIGXCPU: "hang",
        }.get(code, "crash")
        taken = usage.ru_maxrss / 1024 - resident
        return {
            "bytes": path.stat().st_size,
            "outcome": "memory" if taken > LARGE_MB and came in ("value", "sentence", "traceback") else came,
            "seconds": round(time.monotonic() - began, 1),
            "megabytes": max(0, round(taken)),
        }


def _make(attack: Attack, path: Path) -> None:
    """Make the file in a process of its own, since that may take the memory that is to be measured."""
    child = os.fork()
    if child == 0:
        try:
            path.write_bytes(attack.make())
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def _in_the_child(attack: Attack, path: Path) -> None:
    code = 2
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(PATIENCE * SECONDS)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        attack.read(path)
        code = 0
    except MemoryError:
        code = 3
    except (ValueError, OSError) as error:
        code = 3 if isinstance(error.__cause__, MemoryError) else 1 if str(error).startswith("Expected") else 2
    finally:
        os._exit(code)
