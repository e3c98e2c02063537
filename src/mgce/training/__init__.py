"""Training: many small networks at once."""
