"""Messages: bodies, outcomes, the decision after an outcome, dead letters, batches, events."""
