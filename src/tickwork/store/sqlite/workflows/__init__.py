"""Workflows on SQLite."""
