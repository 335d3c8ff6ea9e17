"""Wheel and sdist: what they hold, and whether they work where only the declared dependencies are."""
