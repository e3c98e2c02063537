"""Train networks: many small networks for tables at once, or one network for images."""
