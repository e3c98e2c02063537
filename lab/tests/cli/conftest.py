"""The fixtures of the commands of mgce: tables, and a run in an empty folder."""

from desk.cli.conftest import mgce, model_file, people, refuses
from desk.conftest import small_forests

__all__ = ["mgce", "model_file", "people", "refuses", "small_forests"]
