"""One process of the test of the vocabulary-parallel loss: `python vocab_parallel_worker.py RANK FOLDER`."""

import sys
from pathlib import Path

import torch

from mgce.functional import vocab_parallel_mgce_loss


def main(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=2)
    results = []
    for case in torch.load(folder / "cases.pt", weights_only=True):
        logits = case["logits"]
        shard = slice(0, case["split"]) if rank == 0 else slice(case["split"], None)
        local = logits[:, shard].clone().requires_grad_()
        loss = vocab_parallel_mgce_loss(
            local, case["target"], num_classes=logits.shape[1], vocab_start=shard.start, **case["keywords"]
        )
        loss.sum().backward()
        results.append({"loss": loss.detach(), "grad": local.grad})
    torch.save(results, folder / f"rank{rank}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
