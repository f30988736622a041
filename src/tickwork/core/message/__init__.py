"""Messages: bodies, outcomes, what follows from an outcome, dead letters, batches."""
