"""`mgce env`: print the versions and devices that a bug report should name."""

from __future__ import annotations

from mgce.runs.machine import describe


def _facts() -> dict[str, str]:
    from mgce.kernels import proof  # slow: it imports PyTorch

    return {**describe(), **proof.report()}


def env() -> None:
    """Print the versions and the devices that results depend on."""
    for name, value in _facts().items():
        print(f"{name:13} {value}")  # noqa: T201
