"""What vLLM printed when it started: a log, however wrapped, read line by line in constant memory."""

from .reading import read_log

__all__ = ["read_log"]
