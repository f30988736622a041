"""The file, the writer thread, the readers, migrations and wake-ups of SQLite."""
