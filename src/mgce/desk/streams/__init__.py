"""Fit to tables that do not fit the memory, in chunks of rows: here, or on the workers of a Dask cluster."""
