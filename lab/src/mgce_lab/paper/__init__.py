"""Reproduce the tables and figures of the paper: a module for each, and modules with shared steps."""
