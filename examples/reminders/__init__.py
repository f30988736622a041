"""Reminders by email and webhook."""
