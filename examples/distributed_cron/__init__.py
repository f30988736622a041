"""Three nodes, one PostgreSQL, 100,000 schedules; leaders are killed and frozen while they work."""
