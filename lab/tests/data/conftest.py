import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

REAL = Path(os.environ.get("MGCE_DATA_DIR", Path(__file__).parents[4] / "shared" / "data"))


@pytest.fixture
def real_data():
    """Return a function that skips unless the real files at these paths are there."""

    def require(*paths):
        for path in paths:
            if not (REAL / path).exists():
                pytest.skip(f"needs the real {path} in MGCE_DATA_DIR")
        return REAL

    return require


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Return a function that writes a file where a module's Source has it, and states its checksum there."""

    def write(module, name, content):
        source = getattr(module, name)
        path = tmp_path / source.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        checksum = "sha256:" + hashlib.sha256(content).hexdigest()
        monkeypatch.setattr(module, name, replace(source, checksum=checksum))
        return path

    return write
