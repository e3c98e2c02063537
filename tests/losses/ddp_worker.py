"""One of the two processes of test_ddp.py: `python ddp_worker.py RANK FOLDER`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mgce import ELRLoss, LearnedForwardCorrection, LinearMGCELoss, MGCELoss, SoftBootstrapLoss
from mgce.losses.indexed import AcceptsIndex
from mgce_lab.losses import SelfAdaptiveLoss

ROWS, K = 10, 3


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


def criteria() -> dict[str, nn.Module]:
    return {
        "elr": ELRLoss(ROWS, K),
        "adaptive": SelfAdaptiveLoss(ROWS, K, start=1),
        "bootstrap": SoftBootstrapLoss(ROWS, K, start=1),
        "forward": AcceptsIndex(LearnedForwardCorrection(K, window=20)),
    }


def epochs(criterion: nn.Module, which: range, part: slice = slice(None)) -> Iterator[float]:
    """Yield the losses of batches of up to four rows; of each batch a process may take a part."""
    for epoch in which:
        generator = torch.Generator().manual_seed(epoch)
        target = torch.arange(ROWS) % K
        for index in torch.randperm(ROWS, generator=generator).split(4):
            logits = torch.randn(len(index), K, generator=generator)
            yield criterion(logits[part], target[index][part], index[part]).item()


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
    for name, criterion in criteria().items():
        list(epochs(criterion, range(3), slice(0, 1) if rank == 0 else slice(1, None)))  # of unequal numbers of rows
        torch.save(criterion.state_dict(), folder / f"{name}{rank}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
