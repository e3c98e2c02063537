"""One process of the tests of sharded training: `python sharded_worker.py RANK FOLDER`."""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from mgce import MGCELoss


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4))


def main(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    rows = torch.load(folder / "rows.pt", weights_only=True)
    share = slice(0, 8) if rank == 0 else slice(8, None)

    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    MGCELoss()(model(rows["features"][share]), rows["target"][share]).backward()
    sharded = {name: weight.grad.full_tensor() for name, weight in model.named_parameters()}

    # Logits as a DTensor whose rows are spread over the processes, and replicated before the loss.
    whole = network()(rows["features"]).detach()
    logits = distribute_tensor(whole, mesh, [Shard(0)]).requires_grad_()
    loss = MGCELoss(backend="torch")(logits.redistribute(mesh, [Replicate()]).to_local(), rows["target"])
    loss.backward()
    tensor = {"loss": loss.detach(), "grad": logits.grad.full_tensor()}
    torch.save({"fsdp": sharded, "dtensor": tensor}, folder / f"rank{rank}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
