"""Schedules: create, change, plan, what became of a slot, shards and calendars."""
