"""The command line: one module for each command, which parses options, calls the package and prints results."""
