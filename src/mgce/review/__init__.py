"""Let a person review suspect labels: read and write the files and the HTML page, and compute bounds from decisions."""
