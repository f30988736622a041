"""Workflows on PostgreSQL."""
