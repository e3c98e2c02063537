"""Define every loss as a function and as a module."""
