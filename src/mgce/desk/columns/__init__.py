"""The columns of a table: their kinds, what is read from them, and what in them looks like a mistake."""
