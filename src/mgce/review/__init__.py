"""Review suspect labels by a person: the files, the HTML page, and the bounds that follow from the decisions."""
