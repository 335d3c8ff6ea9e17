"""YAML as nodes that know where they stand: every scalar can say where a stretch of its value is written."""

from .documents import MAX_DEPTH, MAX_NODES, documents
from .tree import Mapping, Node, Scalar, Sequence, mappings_in, walk

__all__ = ["MAX_DEPTH", "MAX_NODES", "Mapping", "Node", "Scalar", "Sequence", "documents", "mappings_in", "walk"]
