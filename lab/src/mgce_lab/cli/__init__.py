"""The program `mgce-lab`: one file for each command."""
