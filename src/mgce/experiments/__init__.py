"""Experiments as plan, run, select and render; only `run` does work, the rest are pure."""
