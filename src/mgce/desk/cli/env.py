"""`mgce env`: print the versions and devices that a bug report should name."""

from __future__ import annotations

from mgce._machine import describe


def env() -> None:
    """Print the versions and the devices that results depend on."""
    from mgce.kernels import proof

    for name, value in {**describe(), **proof.report()}.items():
        print(f"{name:13} {value}")  # noqa: T201
