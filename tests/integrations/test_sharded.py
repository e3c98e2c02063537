"""FSDP2 and DTensor on two processes: the gradients are those of one process with all rows."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("torch.distributed.fsdp", reason="needs a PyTorch with fully_shard")
if not hasattr(torch.distributed.fsdp, "fully_shard"):
    pytest.skip("needs a PyTorch with fully_shard", allow_module_level=True)

from integrations.sharded_worker import network
from mgce import MGCELoss


@pytest.mark.slow
def test_gradients_of_two_processes_are_those_of_one(tmp_path):
    rows = {"features": torch.randn(16, 5), "target": torch.randint(4, (16,))}
    torch.save(rows, tmp_path / "rows.pt")
    worker = Path(__file__).with_name("sharded_worker.py")
    processes = [subprocess.Popen([sys.executable, worker, str(rank), tmp_path]) for rank in range(2)]
    try:
        assert [process.wait(timeout=240) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    model = network()
    logits = model(rows["features"])
    logits.retain_grad()
    loss = MGCELoss()(logits, rows["target"])
    loss.backward()
    for rank in range(2):
        found = torch.load(tmp_path / f"rank{rank}.pt", weights_only=True)
        for name, weight in model.named_parameters():
            torch.testing.assert_close(found["fsdp"][name], weight.grad)
        torch.testing.assert_close(found["dtensor"]["loss"], loss.detach())
        grad = found["dtensor"]["grad"]
        torch.testing.assert_close(grad, logits.grad)
