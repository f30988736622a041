"""Streaky: reminds people of their GitHub streak, once a day, if they have not committed yet.

```
  settings.py   what the environment says
  app.py        the declarations: queues, a unit of work, the start of a day
  streak.py     how long a streak is: pure
  github.py     what somebody committed
  reminding.py  a reminder over Discord or Telegram
  calling.py    what an answer of theirs means: again, later, never
  users.py      the tables of the example, in Tickwork's own database
  database.py   SQLite and PostgreSQL behind one face
  stand_in.py   GitHub, Discord and Telegram on this machine
  run.py        made-up users, and a day that can be watched
```
"""
