"""The SQLite store: one database file, one writer at a time.

Every write is a work item for the writer thread. Items that wait at the same time share one
commit. Each item runs inside its own savepoint and is answered after the commit: an accepted item
is synced to disk, and a failed item changed nothing. Other processes on the same file take turns
through `BEGIN IMMEDIATE`, so what an item has read is still true when it writes. Reads use
connections of their own and never wait for a writer.
"""

from tickwork.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
