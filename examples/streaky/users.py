"""The example's tables. They are in Tickwork's database, so that a handler's rows commit with its
ack.

| table | a row is |
|---|---|
| streaky_users | a user who wants reminders |
| streaky_starts | a started day |
| streaky_rosters | a user to check on a day; fixed when the day starts |
| streaky_checks | the result of a check: one per user and day |
| streaky_reminders | a sent reminder: at most one per user and day |
| streaky_days | a completed day with its counts |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import NamedTuple

from examples.streaky import settings
from examples.streaky.database import Database, database_at

TABLES = (
    """CREATE TABLE IF NOT EXISTS streaky_users (
        id INTEGER PRIMARY KEY, login TEXT NOT NULL, token TEXT, zone TEXT NOT NULL,
        repositories TEXT NOT NULL, channel TEXT NOT NULL, address TEXT NOT NULL,
        is_active BOOLEAN NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS streaky_starts (
        day TEXT PRIMARY KEY, has_roster BOOLEAN NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS streaky_rosters (
        day TEXT NOT NULL, user_id INTEGER NOT NULL, PRIMARY KEY (day, user_id))""",
    """CREATE TABLE IF NOT EXISTS streaky_checks (
        day TEXT NOT NULL, user_id INTEGER NOT NULL, streak INTEGER NOT NULL,
        has_today BOOLEAN NOT NULL, PRIMARY KEY (day, user_id))""",
    """CREATE TABLE IF NOT EXISTS streaky_reminders (
        key TEXT PRIMARY KEY, user_id INTEGER NOT NULL, text TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS streaky_days (
        batch_id TEXT PRIMARY KEY, total INTEGER NOT NULL, completed INTEGER NOT NULL,
        failed INTEGER NOT NULL)""",
)

ADD_USER = "INSERT INTO streaky_users VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
ADD_CHECK = "INSERT INTO streaky_checks VALUES (?, ?, ?, ?)"
ADD_REMINDER = "INSERT INTO streaky_reminders VALUES (?, ?, ?)"
ADD_DAY = "INSERT INTO streaky_days VALUES (?, ?, ?, ?)"

# One transaction, so that two concurrent starts of a day create one roster.
START = "INSERT INTO streaky_starts VALUES (?, FALSE) ON CONFLICT DO NOTHING"
FILL_ROSTER = """
    INSERT INTO streaky_rosters (day, user_id)
    SELECT day, id FROM streaky_starts, streaky_users
    WHERE day = ? AND NOT has_roster AND is_active AND token IS NOT NULL
"""
KEEP_ROSTER = "UPDATE streaky_starts SET has_roster = TRUE WHERE day = ?"
ROSTER = "SELECT user_id FROM streaky_rosters WHERE day = ? ORDER BY user_id"

FIND = """
    SELECT id, login, token, zone, repositories, channel, address, is_active
    FROM streaky_users
    WHERE id = ? AND NOT EXISTS (
        SELECT 1 FROM streaky_checks WHERE user_id = streaky_users.id AND day = ?
    )
"""


class User(NamedTuple):
    """A user. The token stays in this table; a message carries only the user's id."""

    id: int
    login: str
    token: str | None
    zone: str
    repositories: str
    channel: str
    address: str
    is_active: bool = True


class Users:
    """Queries on the example's tables."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def create_tables(self) -> None:
        """Create missing tables."""
        await self.database.write(*((table, [()]) for table in TABLES))

    async def add(self, users: Iterable[User]) -> None:
        """Insert users."""
        await self.database.write((ADD_USER, list(users)))

    async def roster(self, day: date) -> Sequence[int]:
        """Return the users to check on a day; the same on every call."""
        name = day.isoformat()
        await self.database.write(
            *((statement, [(name,)]) for statement in (START, FILL_ROSTER, KEEP_ROSTER))
        )
        return [user_id for (user_id,) in await self.database.fetch(ROSTER, name)]

    async def unchecked(self, user_id: int, day: date) -> User | None:
        """Return the user, or None if they were deleted or checked already."""
        found = await self.database.fetch(FIND, user_id, day.isoformat())
        return User(*found[0]) if found else None


users = Users(database_at(settings.DATABASE))
