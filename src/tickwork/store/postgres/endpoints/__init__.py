"""Endpoints and their deliveries on PostgreSQL."""
