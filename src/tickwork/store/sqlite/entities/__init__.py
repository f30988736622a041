"""Entities: their state and storage, and direct calls."""
