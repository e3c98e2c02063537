"""A small transformer that reads a table with partly wrong labels and answers in one pass; research code."""
