"""Programs that measure, print and save; nothing here asserts a time."""
