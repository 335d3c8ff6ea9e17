"""Compose files."""
