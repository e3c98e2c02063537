"""Run the program by `python -m mgce_lab`."""

from mgce_lab.cli.main import main

main()
