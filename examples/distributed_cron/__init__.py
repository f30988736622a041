"""Three nodes on one PostgreSQL share 100,000 schedules while leaders are killed and frozen."""
