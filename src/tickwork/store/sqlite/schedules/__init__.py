"""Schedules: create, change, plan, slot outcomes, firings, shards and calendars."""
