"""One process of the test of data-parallel training: `python ddp_worker.py RANK FOLDER`."""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mgce import LinearMGCELoss, MGCELoss


class WithHead(nn.Module):
    """A network that gives its loss, its head being part of that."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(5, 6), LinearMGCELoss(6, 7, bias=True)

    def forward(self, features: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(features), target)


class WithLogits(nn.Module):
    """A network that gives its loss by way of logits."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.loss = nn.Linear(5, 7), MGCELoss()

    def forward(self, features: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.loss(self.body(features), target)


def models() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    return {"head": WithHead(), "logits": WithLogits()}


def main(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=2)
    rows = torch.load(folder / "rows.pt", weights_only=True)
    share = slice(0, 8) if rank == 0 else slice(8, None)
    grads = {}
    for name, model in models().items():
        replica = DistributedDataParallel(model)
        replica(rows["features"][share], rows["target"][share]).backward()
        grads[name] = {key: weight.grad for key, weight in model.named_parameters()}
    torch.save(grads, folder / f"rank{rank}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
