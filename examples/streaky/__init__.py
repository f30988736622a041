"""Streaky: a daily reminder for people who have not committed to GitHub yet.

```
  settings.py       settings from the environment
  app.py            queues, handlers and the daily schedule
  streak.py         how long a streak is (pure)
  github.py         reads a user's commits
  reminders.py      sends a reminder over Discord or Telegram
  http_calls.py     turns HTTP responses into retry, snooze or permanent failure
  users.py          the example's tables, in Tickwork's database
  database.py       SQLite and PostgreSQL behind one interface
  fake_services.py  GitHub, Discord and Telegram as a local server
  run.py            creates sample users; starts a day and shows its progress
  measure.py        measures how long a day takes
```
"""
