import subprocess
import sys
from pathlib import Path

import pytest
import torch

from losses.ddp_worker import models


@pytest.mark.slow
def test_gradients_of_two_processes_are_those_of_the_whole_batch(tmp_path):
    rows = {"features": torch.randn(16, 5), "target": torch.randint(7, (16,))}
    torch.save(rows, tmp_path / "rows.pt")
    worker = Path(__file__).with_name("ddp_worker.py")
    processes = [subprocess.Popen([sys.executable, worker, str(rank), tmp_path]) for rank in range(2)]
    try:
        assert [process.wait(timeout=120) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    found = [torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in range(2)]
    for name, model in models().items():
        model(rows["features"], rows["target"]).backward()
        want = {key: weight.grad for key, weight in model.named_parameters()}
        for grads in found:
            torch.testing.assert_close(grads[name], want)
