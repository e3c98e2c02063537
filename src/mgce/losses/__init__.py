"""The losses, as functions and as modules."""
