"""Imports every family of checks, which registers them."""

from __future__ import annotations
