"""Train networks: ensembles of small networks at once, and single networks for images."""
