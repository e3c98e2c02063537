"""One process of the test of synchronisation: `python sync_worker.py RANK FOLDER`."""

import json
import sys
from pathlib import Path

import torch

from mgce.metrics import AdaptiveCalibrationError, ExpectedCalibrationError, StaticCalibrationError


def main(rank: int, folder: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=2)
    rows = torch.load(folder / "rows.pt", weights_only=True)
    share = slice(0, 70) if rank == 0 else slice(70, None)  # unequal
    values = {}
    for metric in (ExpectedCalibrationError(7), StaticCalibrationError(4, 7), AdaptiveCalibrationError(7)):
        probs, target = rows["probs"][share], rows["target"][share]
        for batch in zip(probs.split(30), target.split(30), strict=True):
            metric.update(*batch)
        values[type(metric).__name__] = metric.compute().item()
    (folder / f"rank{rank}.json").write_text(json.dumps(values))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
