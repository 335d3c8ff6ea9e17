"""The tour of `cgplan demo`: its steps, and the two files that they read."""

from .tour import FILES, STEPS, Step, step_of, text_of

__all__ = ["FILES", "STEPS", "Step", "step_of", "text_of"]
