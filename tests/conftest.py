import pytest
import torch
from hypothesis import settings

from web_pages import CHROMIUM

# No deadline: a busy machine is not a wrong answer.
settings.register_profile("mgce", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("mgce")


@pytest.fixture(autouse=True)
def _fixed_seed():
    torch.manual_seed(0)


@pytest.fixture
def browser():
    """Chromium, driven from Python; skipped where either is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()
