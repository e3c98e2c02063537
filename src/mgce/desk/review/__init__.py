"""Let a person review suspect labels: read and write the files and the page, and bound errors from the decisions."""
