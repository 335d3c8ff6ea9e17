"""The one place that holds cgplan's own version."""

__version__ = "0.1.0"
