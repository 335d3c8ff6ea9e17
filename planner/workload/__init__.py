"""What a server's steps looked like: how many batches of which kind and size, and what they ran in."""

from .histogram import Batches, Kind, Range, Seen, Workload, difference, merge

__all__ = ["Batches", "Kind", "Range", "Seen", "Workload", "difference", "merge"]
