"""Deliveries to the outside: webhooks and email."""
