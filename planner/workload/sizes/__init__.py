"""Capture sizes for steps: the best list of each number, what a list does, and how sure its gain is."""
