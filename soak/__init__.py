"""Long runs that try to make the library fail: `python -m soak numerics` looks for wrong numbers."""
