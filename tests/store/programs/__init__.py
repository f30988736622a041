"""Programs for tests to start; each takes the path of a SQLite file first."""
