"""Long runs that try to make the library fail: `python -m mgce_lab.soak numerics` looks for wrong numbers."""
