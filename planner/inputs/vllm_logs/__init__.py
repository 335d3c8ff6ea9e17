"""What vLLM printed when it started: a log, however wrapped, read line by line in constant memory."""

from .reading import read_log
from .several import read_logs

__all__ = ["read_log", "read_logs"]
