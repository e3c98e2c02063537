"""`mgce_lab.soak files`: no file may crash a reader or fill the memory, or give more than a value or one sentence."""

from __future__ import annotations

import argparse
import json
import mmap
import multiprocessing
import os
import shutil
import signal
import struct
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mgce._machine import describe
from mgce_lab.soak import attacks, guided, reliability
from mgce_lab.soak.mutate import mutated
from mgce_lab.soak.outcomes import BAD, TimeoutError_, outcome
from mgce_lab.soak.readers import Reader, readers

PART = 2000  # files that a process tries, after which its result is kept on disk
SECONDS = 20  # for a file, after which a reader hangs
WORK = Path("build/soak/files")
MEMORY = Path("/dev/shm")  # a folder in memory, where there is one: the disk is not what is tried
Result = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("--files", type=float, default=200, help="mutated files for each reader")
    parser.add_argument("--readers", help="names, with commas between them; all of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the parts that are done, and of failures")
    parser.add_argument(
        "--guided", type=float, default=0, help="files more for each reader, guided by coverage (atheris)"
    )
    parser.add_argument("--attacks", action=argparse.BooleanOptionalAction, default=True, help="the files made by hand")
    parser.add_argument("--record", metavar="WHEN", choices=("before", "after"), help=f"write {reliability.RESULTS}")
    parser.add_argument("--replay", metavar="READER:NUMBER", help="one mutated file")


def main(options: argparse.Namespace) -> int:
    """Run it; 1 if a reader failed."""
    known = readers()
    if options.replay:
        name, _, number = options.replay.rpartition(":")
        print(try_files(name, known[name], [int(number)], options.work))
        return 0
    names = options.readers.split(",") if options.readers else list(known)
    results: Result = {"readers": {}}
    for name in names:
        results["readers"][name] = _many(name, known[name], int(options.files), options)
        print(f"{name:16}", results["readers"][name]["outcomes"], flush=True)
    for name in names if options.guided else []:
        results["readers"][name]["guided"] = guided.run(name, int(options.guided), options.work)
        print(f"{name:16} guided", results["readers"][name]["guided"], flush=True)
    results["attacks"] = attacks.run() if options.attacks else {}
    if options.record:
        reliability.write("files", options.record, {"machine": describe(), **results})
    parts = [part for one in results["readers"].values() for part in (one, one.get("guided", {}))]
    bad = [part.get("outcomes", {}).get(kind, 0) for part in parts for kind in BAD]
    return 1 if any(bad) or any(one["outcome"] in BAD for one in results["attacks"].values()) else 0


def _hangs(signal_number: int, frame: Any) -> None:
    raise TimeoutError_(f"more than {SECONDS} s")


def try_files(name: str, reader: Reader, numbers: Any, work: Path, progress: Any = None) -> Result:
    """Try mutated files one after another in this process; give the count of each outcome, and the bad ones."""
    counts: Counter[str] = Counter()
    bad: list[list[Any]] = []
    seeds = reader.seeds()
    signal.signal(signal.SIGALRM, _hangs)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        reader.setup(Path(folder))
        path = Path(folder, reader.file)
        for number in numbers:
            if progress is not None:
                progress[:8] = struct.pack("<q", number)
            content = mutated(seeds, number, name)
            path.write_bytes(content)
            signal.alarm(SECONDS)
            came, what = outcome(reader.read, path)
            signal.alarm(0)
            counts[came] += 1
            if came in BAD:
                bad.append([number, came, what])
                _keep(work, name, number, content)
    return {"outcomes": dict(counts), "bad": bad}


def _keep(work: Path, name: str, number: int, content: bytes) -> None:
    folder = work / "failures"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name.replace(' ', '-')}-{number}").write_bytes(content)


def _many(name: str, reader: Reader, total: int, options: argparse.Namespace) -> Result:
    """Try `total` files in processes of their own; skip the parts that an earlier run has finished."""
    parts = [range(start, min(start + PART, total)) for start in range(0, total, PART)]
    reader.seeds()  # made once, and inherited by the processes
    with ThreadPoolExecutor(options.jobs) as pool:
        done = list(pool.map(lambda numbers: _part(name, reader, numbers, options.work), parts))
    outcomes: Counter[str] = Counter()
    for part in done:
        outcomes.update(part["outcomes"])
    kinds: dict[str, int] = {}
    for _, came, what in (bad for part in done for bad in part["bad"]):
        kinds[f"{came}: {what}"] = kinds.get(f"{came}: {what}", 0) + 1
    some = [bad for part in done for bad in part["bad"]][:20]
    return {"files": sum(outcomes.values()), "outcomes": dict(outcomes), "kinds": kinds, "some": some}


def _part(name: str, reader: Reader, numbers: range, work: Path) -> Result:
    path = work / name.replace(" ", "-") / f"{numbers.start}-{numbers.stop}.json"
    if path.exists():
        done: Result = json.loads(path.read_text())
        return done
    result: Result = {"outcomes": Counter(), "bad": []}
    left, began = list(numbers), time.monotonic()
    while left:
        part, at = _in_a_process(name, reader, left, work)
        if part is None:  # the process ended at this file
            part = _in_a_process(name, reader, left[: left.index(at)], work)[0] if at != left[0] else None
            part = part or {"outcomes": {}, "bad": []}
            part["outcomes"]["crash"] = part["outcomes"].get("crash", 0) + 1
            part["bad"].append([at, "crash", "the process ended"])
            _keep(work, name, at, mutated(reader.seeds(), at, name))
            left = left[left.index(at) + 1 :]
        else:
            left = []
        result["outcomes"].update(part["outcomes"])
        result["bad"] += part["bad"]
    result["seconds"] = time.monotonic() - began
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_text(json.dumps(result))
    unfinished.replace(path)
    return result


def _in_a_process(name: str, reader: Reader, numbers: list[int], work: Path) -> tuple[Result | None, int]:
    """Try files in a fork of this process; give the result, or None and the file at which the process ended."""
    progress = mmap.mmap(-1, 8)
    receive, send = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what decoders say of damaged files
            send.send(try_files(name, reader, numbers, work, progress))
            code = 0
        finally:
            os._exit(code)
    send.close()
    try:
        result = receive.recv()
    except EOFError:
        result = None
    os.waitpid(child, 0)
    receive.close()
    return result, struct.unpack("<q", progress[:8])[0]


def clean(work: Path = WORK) -> None:
    """Forget the parts that are done."""
    shutil.rmtree(work, ignore_errors=True)
