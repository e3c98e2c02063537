"""Implement the command line: one module for each command, to parse options, call the package and print results."""
