"""The connection pool, migrations, wake-ups and diagnosis of PostgreSQL."""
