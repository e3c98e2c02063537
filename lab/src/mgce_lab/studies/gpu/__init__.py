"""What needs a GPU, in three stages: `python -m mgce_lab.studies gpu --stage 1` tests, 2 measures losses and 3 trains.

Each stage is made of cells and writes every result as it comes, with the device, its driver and clocks and the versions
of all that is measured; it ends before its time is over, and goes on where it was when it is started again.
"""
