import subprocess
import sys
from pathlib import Path

import pytest
import torch

from losses.ddp_worker import criteria, epochs, models

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of what the two processes wrote."""
    folder = tmp_path_factory.mktemp("ddp")
    torch.save({"features": torch.randn(16, 5), "target": torch.randint(7, (16,))}, folder / "rows.pt")
    worker = Path(__file__).with_name("ddp_worker.py")
    processes = [subprocess.Popen([sys.executable, worker, str(rank), folder]) for rank in range(2)]
    try:
        assert [process.wait(timeout=120) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    return folder


def test_gradients_of_two_processes_are_those_of_the_whole_batch(folder):
    rows = torch.load(folder / "rows.pt", weights_only=True)
    found = [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(2)]
    for name, model in models().items():
        model(rows["features"], rows["target"]).backward()
        want = {key: weight.grad for key, weight in model.named_parameters()}
        for grads in found:
            torch.testing.assert_close(grads[name], want)


def test_two_processes_remember_what_one_does_of_all_rows(folder):
    for name, criterion in criteria().items():
        list(epochs(criterion, range(3)))
        for rank in range(2):
            state = torch.load(folder / f"{name}{rank}.pt", weights_only=True)
            for key, value in criterion.state_dict().items():
                torch.testing.assert_close(state[key], value, equal_nan=True)
