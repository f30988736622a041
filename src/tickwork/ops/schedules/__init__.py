"""The verbs of schedules: create, change, declare, preview, why, calendars."""
