"""The tables and figures of the paper: one file for each, and the steps that they share."""
