"""Endpoints and their deliveries on SQLite."""
