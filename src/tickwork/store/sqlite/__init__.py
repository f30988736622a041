"""The store on SQLite: one file, one writer at a time, the same truth.

Every intention is a piece of work for the writer's thread. Pieces that wait together commit
together, each behind a savepoint of its own, and are answered after the commit: what was
accepted is synced, what failed changed nothing. Other processes on the same file take turns at
`BEGIN IMMEDIATE`, so that whatever a piece has read still holds when it writes. Reading is done
apart, on connections of its own, and waits for nobody.
"""

from tickwork.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
