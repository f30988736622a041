"""The database file, the writer thread, the reader threads, migrations and wake-ups of SQLite."""
