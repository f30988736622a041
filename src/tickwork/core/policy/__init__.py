"""What follows from what: retries, rates and groups of errors, as pure functions of values."""
