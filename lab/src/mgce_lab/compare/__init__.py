"""Compare losses on one table: the work of `mgce-lab compare`."""
